"""The bottleneck of runs whose answer is known: a model in which the slowest resource sets the pace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simulator
from simulator.cluster.cluster import Cluster
from simulator.cluster.protocols import PLAIN, RDMA, Protocol
from simulator.columns import flags, ids, ints
from simulator.costs.table import CostTable
from simulator.training.answers.bottleneck import MOST_TOGETHER, MOST_TRIED, bottleneck
from simulator.training.answers.reliefs import Relief, candidates, relieve
from simulator.training.disturbances.disturbance import Upsets, read_disturbance
from simulator.training.disturbances.disturbed import disturb, upsets_of
from simulator.training.training import Training
from tests.training.runs import costs_of, made

CLUSTER = simulator.load_cluster("ps=2,worker=2x1gpu")
LINKS = {link.name: row for row, link in enumerate(CLUSTER.links)}
DEVICES = {device.short: row for row, device in enumerate(CLUSTER.devices)}
DISTURBED = read_disturbance("worker:1=slow:3")
COSTS = costs_of(CLUSTER, (1000, 1000))


@dataclass(frozen=True)
class Pace:
    """Every update takes as long as the busiest link or device, by name, or the waiting, and what nobody can help."""

    busy_ns: Mapping[str, int]
    waiting_ns: int = 0  # for the slowest of the workers
    disturbing_ns: int = 0
    rest_ns: int = 1
    protocol_ns: int = 0
    regime: str = "async"
    asked: list[Relief] = field(default_factory=list)

    def period(self, cluster: Cluster = CLUSTER, costs: CostTable = COSTS) -> int:
        times = [self.rest_ns + self.waiting_ns]
        for name, work in self.busy_ns.items():
            if name in LINKS:
                old, new = (one.links[LINKS[name]].bytes_per_s for one in (CLUSTER, cluster))
                times.append(work * old // new)
            else:
                column = costs.kinds.index(cluster.devices[DEVICES[name]].kind)
                times.append(work * int(costs.run_ns[0, column]) // 1000)
        return max(times) + self.disturbing_ns + self.protocol_ns

    def training(self, count: int = 60, period: int | None = None) -> Training:
        period = self.period() if period is None else period
        ends = [period * (k + 1) for k in range(count)]
        links, nbytes, devices = (np.zeros(size, np.int64) for size in (len(LINKS), len(LINKS), len(DEVICES)))
        for name, work in self.busy_ns.items():
            if name in LINKS:
                links[LINKS[name]] = work * count
                nbytes[LINKS[name]] = work * count * CLUSTER.links[LINKS[name]].bytes_per_s // 10**9
            else:
                devices[DEVICES[name]] = work * count
        return made(
            ends,
            regime=self.regime,
            tasks=CLUSTER.tasks,
            devices=tuple(device.name for device in CLUSTER.devices),
            links=tuple(LINKS),
            clients=("worker:0", "worker:1"),
            client_task=ids([2, 3]),
            is_worker=flags([True, True]),
            step_waiting_ns=ints([self.waiting_ns] * count),
            link_busy_ns=ints(links),
            link_bytes=ints(nbytes),
            device_busy_ns=ints(devices),
            message_ns=ints([0] * len(devices)),
            device_lanes=ids([1] * len(devices)),
            task_ns=ints(
                [[0, 0, self.protocol_ns * count, (period - self.protocol_ns) * count]] * 4
            ),  # waits for latencies
        )

    def rerun(self, relief: Relief) -> Training | None:
        if relief.by_bytes:  # the graph says where its variables are
            return None
        self.asked.append(relief)
        cluster, (costs,), left = relieve(CLUSTER, [COSTS], [DISTURBED], relief)
        period = self.period(cluster, costs)
        period -= self.disturbing_ns * (not left) + self.protocol_ns * (relief.protocol is not None)
        period -= self.waiting_ns * relief.backups
        return self.training(30, period)


NAMES = ["ps0 nic out", "ps1 nic in", "worker0 gpu0 pcie out", "worker:0/GPU:0", "ps:0/CPU:0"]


@given(st.permutations(NAMES), st.lists(st.integers(200, 390), min_size=4, max_size=4))
def test_the_slowest_resource_is_found_whatever_it_is(names: list[str], others: list[int]) -> None:
    """It takes 1000, the others less than 400: relieved it is twice as fast."""
    pace = Pace(dict(zip(names, [1000, *others], strict=True)))
    found = bottleneck(pace.training(), CLUSTER, pace.rerun)
    assert found.relief is not None
    assert names[0] in found.relief.bottleneck
    assert found.gain == pytest.approx(2)
    assert found.sentence.startswith(f"The bottleneck is {found.relief.bottleneck}")
    assert "2 times as many steps per second, 2,000,000 instead of 1,000,000" in found.sentence
    assert len(pace.asked) <= MOST_TRIED


def test_a_short_warm_up_ends_with_a_round() -> None:
    """Two workers update at nearly one moment: of a cut between them the second update alone takes no time."""

    def in_rounds(run: Training) -> Training:
        ends = ints((run.update_ns.reshape(-1, 2)[:, 1:] + np.arange(2)).ravel())
        client = ids([0, 1] * (len(ends) // 2))
        once = Upsets(once_ns=((int(ends[29]) + 100, int(ends[29]) + 200),))
        return replace(run, update_ns=ends, step_end_ns=ends, update_client=client, step_client=client, upsets=once)

    pace = Pace({"worker:0/GPU:0": 10**6}, rest_ns=0)

    def rerun(relief: Relief) -> Training | None:
        made_again = pace.rerun(relief)
        return None if made_again is None else in_rounds(made_again)

    found = bottleneck(in_rounds(pace.training()), CLUSTER, rerun)
    assert found.tried[0].before_per_s == pytest.approx(1000, rel=1e-5)


@given(st.lists(st.integers(1, 1000), min_size=5, max_size=5), st.integers(1, 2000))
def test_a_gain_is_what_simulating_again_gave(works: list[int], rest: int) -> None:
    pace = Pace(dict(zip(NAMES, works, strict=True)), rest_ns=rest)
    found = bottleneck(pace.training(), CLUSTER, pace.rerun)
    for one in found.tried:
        cluster, (costs,), _ = relieve(CLUSTER, [COSTS], [], one.relief)
        expected = pace.period() / (pace.period(cluster, costs) - pace.protocol_ns * (one.relief.protocol is not None))
        assert one.gain == pytest.approx(expected)
    assert [one.gain for one in found.tried] == sorted((one.gain for one in found.tried), reverse=True)
    assert (found.relief is None) == (found.tried[0].gain < 1.05)


def test_two_equal_resources_are_relieved_together_and_both_are_named() -> None:
    pace = Pace({"worker:0/GPU:0": 1000, "ps0 nic out": 1000})
    found = bottleneck(pace.training(), CLUSTER, pace.rerun)
    assert found.relief is not None
    assert found.gain == pytest.approx(2)
    assert found.sentence.startswith("No single bottleneck, but several that are equal: the ")
    for named in ("the link ps0 nic out", "the GPU of worker (worker:0/GPU:0)"):
        assert named in found.sentence
    assert "with its ops twice as fast" in found.sentence
    assert len(found.tried) == 3  # each, and both together; nobody works for messages here


def test_of_what_is_relieved_together_only_what_has_a_part_in_it_is_named() -> None:
    """Three take as long; a fourth, between them by its share of time, waits for them alone."""
    work = {"worker:0/GPU:0": 1000, "ps0 nic out": 1000, "ps:0/CPU:0": 1000}
    pace = Pace({**work, "worker0 gpu0 pcie out": 990}, rest_ns=1)
    found = bottleneck(pace.training(), CLUSTER, pace.rerun)
    assert found.relief is not None
    for named in ("worker:0/GPU:0", "ps0 nic out", "ps:0/CPU:0", "pcie out"):
        assert named in found.relief.bottleneck  # 990 is a limit, too, once the others are gone
    pace = Pace({**work, "worker0 gpu0 pcie out": 300})
    found = bottleneck(pace.training(), CLUSTER, pace.rerun)
    assert found.relief is not None
    assert "pcie" not in found.relief.bottleneck
    assert found.gain == pytest.approx(2)


def test_a_limit_that_nothing_relieves_is_no_bottleneck_of_what_was_tried() -> None:
    pace = Pace({"worker:0/GPU:0": 1000, "ps0 nic out": 900}, rest_ns=1000)
    found = bottleneck(pace.training(), CLUSTER, pace.rerun)
    assert (found.relief, found.gain) == (None, 1.0)
    assert found.sentence.startswith(
        "No bottleneck was found: of the candidates tried one at a time and together (the "
    )
    assert found.sentence.endswith("nothing makes the run more than 5% faster.")


@given(st.lists(st.integers(900, 1000), min_size=5, max_size=5), st.integers(1, 1100))
def test_reliefs_that_are_tried_together_are_few(works: list[int], rest: int) -> None:
    pace = Pace(dict(zip(NAMES, works, strict=True)), rest_ns=rest)
    bottleneck(pace.training(), CLUSTER, pace.rerun)
    assert len(pace.asked) <= MOST_TRIED + 2 * MOST_TOGETHER - 2


def test_alike_links_are_relieved_together_and_those_beside_them_stay() -> None:
    """Two parameter servers send as much as each other: one alone would help nobody."""
    pace = Pace({"ps0 nic out": 900, "ps1 nic out": 1000, "worker:0/GPU:0": 100})
    found = bottleneck(pace.training(), CLUSTER, pace.rerun)
    assert found.relief is not None
    assert found.relief.bottleneck == "the links ps0 nic out, ps1 nic out, busy up to 100% of the time"
    changed = {CLUSTER.links[row].name for row in found.relief.links}
    assert changed == {"ps0 nic out", "ps1 nic out"}
    assert found.gain == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize("text", ["link:ps0 nic out=degrade:4", "link:ps0 nic out=degrade:0.5", "worker:1=slow:3"])
def test_a_link_with_twice_its_bandwidth_has_so_beside_disturbances(text: str) -> None:
    """A disturbance takes its part of the new bandwidth: what is relieved is the described cluster."""
    disturbances, pace = [read_disturbance(text)], Pace({"ps0 nic out": 1000})
    degraded = disturb(disturbances, CLUSTER).cluster
    (relief,) = (one for one in candidates(pace.training(), CLUSTER, disturbances) if one.links)
    relieved = relieve(CLUSTER, [COSTS], disturbances, relief)
    again = disturb(relieved.disturbances, relieved.cluster).cluster
    row = LINKS["ps0 nic out"]
    assert again.links[row].bytes_per_s == 2 * degraded.links[row].bytes_per_s


def test_the_sentence_names_the_next_one_too() -> None:
    pace = Pace({"worker:0/GPU:0": 500}, rest_ns=450, disturbing_ns=1000)
    found = bottleneck(pace.training(), CLUSTER, pace.rerun, [DISTURBED])
    assert found.sentence == (
        "The bottleneck is what disturbs worker:1: without that there would be 3 times as many steps per second, "
        "2,000,000 instead of 666,700."
    )
    pace = Pace({"worker:0/GPU:0": 2000}, disturbing_ns=1000)
    found = bottleneck(pace.training(), CLUSTER, pace.rerun, [DISTURBED])
    assert found.sentence == (
        "The bottleneck is what disturbs worker:1: without that there would be 1.5 times as many steps per second, "
        "500,000 instead of 333,300; next, the GPU of worker (worker:0/GPU:0), busy 67% of the time (1.5 times "
        "with its ops twice as fast)."
    )


def test_updates_that_are_compared_are_named_where_others_make_the_rate() -> None:
    """With a crash the warm-up that is left out is a tenth at most: of 30 updates 3, where the rate leaves out more."""
    pace, crash = Pace({"worker:0/GPU:0": 10}), read_disturbance("worker:1=crash:at=1000 s,for=1 s")
    slow = ints(np.cumsum([100] * 20 + [10] * 40))
    training = replace(pace.training(), update_ns=slow, upsets=upsets_of(disturb([crash], CLUSTER)))
    found = bottleneck(training, CLUSTER, pace.rerun, [crash])
    assert "instead of 15,000,000 over the updates 4 to 30" in found.sentence
    assert "over the updates" not in bottleneck(pace.training(), CLUSTER, pace.rerun, []).sentence


def test_a_faster_link_leaves_slower_ones_as_they_are() -> None:
    """A GPU's PCIe is ten times as fast as the adapters behind it: these were once sped up as well, twentyfold."""
    training = Pace({"worker0 gpu0 pcie out": 1000}).training()
    (link, *_) = candidates(training, CLUSTER)
    changed = [CLUSTER.links[row].name for row in link.links]
    assert "worker0 gpu0 pcie out" in changed
    assert not any("nic" in name for name in changed)


def test_one_busy_link_among_idle_ones_is_named_alone() -> None:
    pace = Pace({"ps0 nic out": 1000, "ps1 nic out": 400})
    found = bottleneck(pace.training(), CLUSTER, pace.rerun)
    assert found.relief is not None
    assert found.relief.bottleneck == "the link ps0 nic out, busy 100% of the time"


@pytest.mark.parametrize(
    ("pace", "named"),
    [
        (Pace({"worker:0/GPU:0": 500}, disturbing_ns=1000), "what disturbs worker:1"),
        (Pace({"worker:0/GPU:0": 500}, waiting_ns=1000, regime="sync:aggregate=2,total=2,tokens=2"), "waiting for the"),
        (Pace({"worker:0/GPU:0": 500}, protocol_ns=1000), "what grpc adds to each message between tasks"),
    ],
)
def test_what_is_no_resource_is_found_too(pace: Pace, named: str) -> None:
    found = bottleneck(pace.training(), CLUSTER, pace.rerun, [DISTURBED] if pace.disturbing_ns else [])
    assert found.relief is not None
    assert found.relief.bottleneck.startswith(named)
    assert found.gain > 1.5


def test_a_relief_that_cannot_be_had_is_passed_over() -> None:
    pace = Pace({"worker:0/GPU:0": 500}, waiting_ns=1000, regime="sync:aggregate=1,total=2,tokens=2")
    rerun: Callable[[Relief], Training | None] = lambda relief: None if relief.backups else pace.rerun(relief)  # noqa: E731
    found = bottleneck(pace.training(), CLUSTER, rerun)
    assert not any(one.relief.backups for one in found.tried)


def test_one_parameter_server_with_almost_all_bytes_is_relieved_by_dealing_them_out_anew() -> None:
    """Round robin deals kernels to one of two tasks and biases to the other."""
    pace = Pace({"ps0 nic out": 1000, "ps1 nic out": 10, "ps0 nic in": 900, "ps1 nic in": 9})
    even: Callable[[Relief], Training | None] = lambda relief: (  # noqa: E731
        pace.training(30, 505) if relief.by_bytes else pace.rerun(relief)
    )
    found = bottleneck(pace.training(), CLUSTER, even)
    (dealt,) = (one for one in found.tried if one.relief.by_bytes)
    assert dealt.relief.bottleneck == "the uneven spread over 2 tasks of ps (ps:0 carries 99%)"
    assert dealt.relief.share == pytest.approx((1000 - 505) / 1001, rel=0.01)
    assert dealt.gain == pytest.approx(1000 / 505)
    assert "with the variables dealt out by bytes" in found.sentence


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=2))
def test_dealing_out_anew_is_tried_where_one_task_carries_a_fifth_more_than_the_mean(works: list[int]) -> None:
    pace = Pace({"ps0 nic out": works[0], "ps1 nic out": works[1], "worker0 nic in": sum(works)})
    tried = [one for one in candidates(pace.training(), CLUSTER) if one.by_bytes]
    if abs(max(works) - 0.6 * sum(works)) > 1:  # bytes are whole
        assert bool(tried) == (max(works) > 0.6 * sum(works))


def test_without_updates_or_time_there_is_nothing_to_find() -> None:
    still = Pace({}, rest_ns=0)
    for training in (still.training(0), still.training(9)):
        found = bottleneck(training, CLUSTER, still.rerun)
        assert (found.relief, found.gain, found.tried) == (None, 1.0, ())
        assert found.sentence == "Nothing was found that could hold this run back."


def test_both_directions_of_an_adapter_are_one_bottleneck_where_both_are_busy() -> None:
    pace = Pace({"ps0 nic out": 1000, "ps0 nic in": 990, "worker:0/GPU:0": 100})
    found = bottleneck(pace.training(), CLUSTER, pace.rerun)
    assert found.relief is not None
    assert found.relief.bottleneck == "the links ps0 nic out, ps0 nic in, busy up to 100% of the time"
    assert found.gain == pytest.approx(2, rel=0.01)


def test_tasks_that_only_wait_and_processors_that_pack_speak_for_the_protocol() -> None:
    """A worker gets values all the time, for a tenth of it bytes, and packing some takes a lane as long as they say."""
    rate = CLUSTER.links[LINKS["ps0 nic out"]].bytes_per_s
    nbytes = rate * 100 // 10**9 * 60
    packing = 5000
    training = Pace({}).training(60, 1000)
    busy = {"link_busy_ns": (LINKS["ps0 nic out"], 6_000), "link_bytes": (LINKS["ps0 nic out"], nbytes)}
    busy["device_busy_ns"] = (DEVICES["ps:0/CPU:0"], packing + 1000)
    busy["message_ns"] = (DEVICES["ps:0/CPU:0"], packing)
    columns = {}
    for name, (row, value) in busy.items():
        columns[name] = getattr(training.usage, name).copy()
        columns[name][row] = value
    columns["task_ns"] = ints([[0, 0, 0, 60_000], [0, 0, 0, 60_000], [0, 0, 60_000, 0], [0, 0, 0, 60_000]])
    training = replace(training, usage=training.usage._replace(**columns))
    protocol, link, *dealt, device = candidates(training, CLUSTER)
    assert [one.by_bytes for one in dealt] == [True]  # only ps:0 sends
    assert (protocol.protocol, [CLUSTER.devices[row].short for row in device.devices]) == (RDMA, ["ps:0/CPU:0"])
    assert (protocol.share, link.share, device.share) == pytest.approx((0.9, 0.1, 1 / 60), rel=0.01)


@pytest.mark.parametrize(
    ("spec", "instead"),
    [
        ("4gpu", []),
        ("ps=1,worker=1", [RDMA]),
        ("worker=2x2gpu,protocol=rdma", [PLAIN]),
        ("ps=1,worker=1,protocol=plain", []),
    ],
)
def test_reliefs_change_what_they_name_and_nothing_else(spec: str, instead: list[Protocol]) -> None:
    cluster = simulator.load_cluster(spec)
    count = len(cluster.links)
    training = made(
        [100],
        tasks=cluster.tasks,
        devices=tuple(device.name for device in cluster.devices),
        links=tuple(link.name for link in cluster.links),
        client_task=ids([0]),
        task_ns=ints([[0, 0, 0, 100]] * len(cluster.tasks)),
        device_busy_ns=ints([50] * len(cluster)),
        message_ns=ints([0] * len(cluster)),
        device_lanes=ids([device.lanes for device in cluster.devices]),
        link_busy_ns=ints([100] * count),
        link_bytes=ints([1] * count),
    )
    found = candidates(training, cluster)
    assert [relief.protocol for relief in found if relief.protocol] == instead
    named: list[int] = []
    for relief in found:
        changed, (quicker,), _ = relieve(cluster, [costs_of(cluster, (8,) * len(cluster.kinds))], [], relief)
        faster = {row: link.bytes_per_s for row, link in enumerate(changed.links) if link != cluster.links[row]}
        assert faster == {row: 2 * cluster.links[row].bytes_per_s for row in relief.links}
        quick = [row for row, device in enumerate(changed.devices) if device != cluster.devices[row]]
        times = quicker.run_ns[0, [quicker.kinds.index(device.kind) for device in changed.devices]]
        assert quick == list(relief.devices) == np.flatnonzero(times == 4).tolist()
        assert set(times.tolist()) <= {4, 8}
        assert changed.between_tasks == (relief.protocol or cluster.between_tasks)
        assert (changed.routes, changed.tasks) == (cluster.routes, cluster.tasks)
        named += relief.devices
    assert sorted(named) == [row for row, _ in enumerate(cluster.devices)]


def test_what_is_singled_out_is_relieved_and_what_is_on_all_stays() -> None:
    texts = ("worker:1=slow:3", "worker:*=noise:exponential:0.1", "link:ps:0->worker:0=degrade:8")
    every = [read_disturbance(text) for text in texts]
    (first, *_) = candidates(Pace({"ps:0/CPU:0": 5}).training(), CLUSTER, every)
    assert first.bottleneck == "what disturbs worker:1, ps:0->worker:0"
    changed, costs, left = relieve(CLUSTER, [COSTS], every, first)
    assert (changed.links, costs[0].kinds, left) == (CLUSTER.links, COSTS.kinds, (every[1],))


def test_bytes_are_reckoned_at_the_rate_of_the_degraded_link() -> None:
    """Of 100 ns on the link in 400 the bytes would take 25 where it is whole."""
    training = Pace({"ps0 nic out": 100}).training(1, 400)
    (link,) = (one for one in candidates(training, CLUSTER) if one.links)
    (slow,) = (
        one for one in candidates(training, CLUSTER, [read_disturbance("link:ps0 nic out=degrade:2")]) if one.links
    )
    assert (link.share, slow.share) == pytest.approx((0.25, 0.5), rel=0.02)


def test_the_other_end_of_equal_adapters_is_no_second_bottleneck() -> None:
    """Every link is as busy as its bytes keep it: those of the workers, of which there are more, are not."""
    outward = {f"{task} nic out": busy for task, busy in (("ps0", 1000), ("ps1", 990), ("worker0", 280))}
    inward = {f"{task} nic in": busy for task, busy in (("ps0", 980), ("ps1", 970), ("worker0", 270))}
    pace = Pace({**outward, **inward, "worker:0/GPU:0": 100})
    found = bottleneck(pace.training(), CLUSTER, pace.rerun)
    assert found.gain == pytest.approx(2, rel=0.01)
    assert found.sentence.count("bandwidth") == 1
    assert "with twice their bandwidth there would be 2 times" in found.sentence
    assert "worker0 nic" not in found.sentence
