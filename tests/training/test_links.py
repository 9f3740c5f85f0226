"""What trainings get out of links that serve in turn."""

from __future__ import annotations

from dataclasses import replace

from simulator.cluster.cluster import Cluster, Link
from simulator.execution.options import SimulationOptions
from simulator.training.train import train
from tests.execution.cases import attrs_of, cluster
from tests.strategies import Rows
from tests.training.workloads import Priced, client

WORKERS, SERVERS, VARIABLES, FLOATS = 16, 8, 24, 250


def ported() -> Cluster:
    """Tasks with a port out and a port in of 1 byte per nanosecond each."""
    names = [f"ps:{at}/CPU:0" for at in range(SERVERS)] + [f"worker:{at}/CPU:0" for at in range(WORKERS)]
    count = len(names)
    links = [Link(f"{name} {route}", 10, 10**9) for route in ("out", "in") for name in names]
    return cluster(names, links, {(s, t): (s, count + t) for s in range(count) for t in range(count) if s != t})


def worker(on: Cluster, number: int) -> Priced:
    """Reads all variables, of which every server has as many, and sends a gradient of each back."""
    made, here = Rows(), SERVERS + number
    where: dict[str, int] = {}
    took: dict[str, int] = {}
    for at in range(VARIABLES):
        made.add(f"v{at}", "Const", **attrs_of("Const", 1, FLOATS))
        made.add(f"use{at}", "Neg", [f"v{at}"], **attrs_of("Neg"))
        where |= {f"v{at}": at % SERVERS, f"use{at}": here}
    made.add("used", "NoOp", [f"^use{at}" for at in range(VARIABLES)])
    where["used"] = here
    for at in range(VARIABLES):
        made.add(f"gradient{at}", "AddN", [f"use{at}", "^used"], **attrs_of("AddN", 1, FLOATS))
        made.add(f"apply{at}", "Neg", [f"gradient{at}"], **attrs_of("Neg"))
        where |= {f"gradient{at}": here, f"apply{at}": at % SERVERS}
        took[f"gradient{at}"] = 10
    return client(on, f"worker:{number}", made.built(), where, took, task=here)


def share_of_bound(contention: str) -> float:
    """Steps per nanosecond, the first third left out, as a share of what the bytes of the servers' ports allow."""
    on = ported()
    given = [worker(on, number) for number in range(WORKERS)]
    clients, priced = [one for one, _ in given], [costs for _, costs in given]
    run = train(
        clients, on, priced, options=SimulationOptions(contention=contention, engine="python"), regime=None, steps=6
    )
    done = run.update_ns.tolist()
    first = len(done) // 3
    per_ns: float = (len(done) - 1 - first) / (done[-1] - done[first]) * (VARIABLES // SERVERS * FLOATS * 4)
    return per_ns


def test_alike_workers_do_not_fall_into_step_on_serial_links() -> None:
    """Where a transfer had to have its whole route at once, each waiting for the other's, this was 18 %."""
    assert share_of_bound("serial") > 0.95


def test_serial_links_are_no_slower_than_fair_ones() -> None:
    """Fair ones let all workers read at the same time, and then all write: each port is idle half of the time."""
    assert share_of_bound("serial") > share_of_bound("fair") > 0.45


def test_a_server_with_a_fast_adapter_serves_as_many_as_it_can() -> None:
    """Ten times its workers' rate: held at their pace its link took 16 % longer than a fair one, now 2 %."""
    on = ported()
    fast = replace(
        on,
        links=tuple(
            replace(link, bytes_per_s=10 * link.bytes_per_s) if link.name.startswith("ps") else link
            for link in on.links
        ),
    )
    times = {}
    for contention in ("serial", "fair"):
        given = [worker(fast, number) for number in range(WORKERS)]
        run = train(
            [one for one, _ in given],
            fast,
            [costs for _, costs in given],
            options=SimulationOptions(contention=contention, engine="python"),
            regime=None,
            steps=6,
        )
        times[contention] = int(run.update_ns[-1])
    assert times["serial"] < 1.05 * times["fair"]
