"""Disturbances as people write them, and applied to a cluster."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simulator
from simulator.cluster.cluster import Cluster
from simulator.columns import ids
from simulator.costs.table import MEASURED, STATIC, CostTable, PriceErrors
from simulator.errors import ClusterError, SimvizError
from simulator.training.disturbances.disturbance import (
    Crash,
    Degrade,
    Effect,
    Late,
    Noise,
    Slow,
    Traffic,
    read_disturbance,
)
from simulator.training.disturbances.disturbed import Disturbed, disturb, present, singled_out, slowed_costs
from simulator.training.disturbances.noise import NO_PAUSE, ONE, QUANTILES, Pauses
from tests.training.runs import costs_of

MS = 10**6


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return simulator.load_cluster("ps=2,worker=3x1gpu")


def disturbed(cluster: Cluster, *texts: str) -> Disturbed:
    return disturb([read_disturbance(text) for text in texts], cluster)


@pytest.mark.parametrize(
    ("text", "target", "effect"),
    [
        ("worker:3=slow:2.0", "worker:3", Slow(Fraction(2))),
        ("worker:3/GPU:0=slow:1.25", "worker:3/GPU:0", Slow(Fraction(5, 4))),
        ("worker:*=noise:lognormal:0.3", "worker:*", Noise("lognormal", 0.3)),
        ("*=noise:exponential", "*", Noise("exponential", 1.0)),
        ("ps:0=noise:exponential:0.25", "ps:0", Noise("exponential", 0.25)),
        ("ps:0=pause:every=2 ms,for=1 ms", "ps:0", Pauses(0, 2 * MS, MS)),
        ("ps:0 = pause:for=1ms, every=2ms, phase=3ms", "", None),
        ("ps:0=pause:for=1ms, every=2ms, phase=3ms", "ps:0", Pauses(3 * MS, 2 * MS, MS)),
        ("ps:0=pause:at=7 ms,for=1 ms", "ps:0", Pauses(7 * MS, 0, MS)),
        ("worker:1=late:1.5 s", "worker:1", Late(1500 * MS)),
        ("worker:1=crash:at=2 s,for=1 s", "worker:1", Crash(2000 * MS, 1000 * MS)),
        ("ps:0=crash:at=2 s,for=1 s,restore=3 s,checkpoint=4 s", "ps:0", Crash(*(k * 1000 * MS for k in (2, 1, 3, 4)))),
        ("link:ps:0->worker:1=degrade:4", "ps:0->worker:1", Degrade(Fraction(4))),
        ("link:ps0 nic out=degrade:4", "ps0 nic out", Degrade(Fraction(4))),
        ("link:ps:0->ps:1=traffic:1 GB/s", "ps:0->ps:1", Traffic(10**9, 2**20)),
        ("link:ps:0->ps:1=traffic:1 GB/s,bytes=64 KiB", "ps:0->ps:1", Traffic(10**9, 2**16)),
    ],
)
def test_each_kind_is_read(text: str, target: str, effect: Effect | None) -> None:
    if effect is None:
        with pytest.raises(SimvizError, match="no disturbance"):
            read_disturbance(text)
        return
    read = read_disturbance(text)
    assert (read.target, read.effect, read.text) == (target, effect, text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "write TARGET=KIND:FIGURES"),
        ("worker:3", "write TARGET=KIND:FIGURES"),
        ("worker:3=slwo:2", "Did you mean 'slow'"),
        ("worker:3=slow", "'' is not a factor"),
        ("worker:3=slow:-1", "'-1' is not a factor"),
        ("worker:3=slow:nan", "'nan' is not a factor"),
        ("worker:3=slow:0", "not from 0.001 to 1,000"),
        ("worker:3=slow:1e9", "'1e9' is not a factor"),
        (
            "worker:3=noise:gauss:1",
            "there is no noise 'gauss', but lognormal, exponential, empirical. Write it like noise:lognormal:",
        ),
        ("worker:3=noise:lognormol:1", "Did you mean 'lognormal'"),
        ("worker:3=noise:lognormal", "'' is not a sigma"),
        ("worker:3=noise:lognormal:3", "sigma is 3"),
        ("worker:3=noise:exponential:2", "share is 2"),
        ("worker:3=noise:empirical:", "names no file"),
        ("worker:3=noise:empirical:/none/such", "cannot be read"),
        ("worker:3=noise:empirical:a\0b", "cannot be read"),
        ("worker:3=noise:empirical:/tmp", "it is no file"),
        ("worker:3=pause:every=1 s", "'for' is missing"),
        ("worker:3=pause:every=1 s,for=1 s", "would never work"),
        ("worker:3=pause:every=1 s,for=0 s", "no time"),
        ("worker:3=pause:at=1 s,for=1 s,every=1 s", "'every=1 s' is none of at=, for="),
        ("worker:3=pause:every=1,for=1 s", "unknown unit ''; use ns, us, ms, s, min or h"),
        ("worker:3=pause:evry=1 s,for=1 s", "Did you mean 'every'"),
        ("worker:3=pause:for=1 s,for=1 s", "'for' is given twice"),
        ("worker:3=late:1 day", "unknown unit"),
        ("worker:3=late:9000000 s", "longer than 11 days"),
        ("worker:3=crash:at=1 s", "'for' is missing"),
        ("worker:3=degrade:2", "'degrade' is for links"),
        ("link:a->b=slow:2", "'slow' is for tasks"),
        ("link:a->b=traffic:0 B/s", "rate above 0"),
        ("link:a->b=traffic:1 B/s,bytes=0", "messages from 1 B"),
        ("link:a->b=traffic:1 B/s,byte=1", "Did you mean 'bytes'"),
    ],
)
def test_errors_show_the_text_and_what_would_do(text: str, says: str) -> None:
    with pytest.raises(SimvizError) as caught:
        read_disturbance(text)
    assert says in str(caught.value)
    assert repr(text) in str(caught.value)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    for whole in (text, f"worker:0={text}", f"worker:0=pause:{text}", f"link:a->b=traffic:{text}"):
        try:
            said = read_disturbance(whole).text
        except SimvizError as error:
            said = str(error)
        begin = repr(whole)[1:20].rstrip("\\")  # long texts are shortened
        assert whole in said or begin in said


def test_measured_noise_is_read_from_a_file(tmp_path: Path, cluster: Cluster) -> None:
    path = tmp_path / "steps.txt"
    path.write_text("# milliseconds\n1\n\n3  # a slow one\n")
    read = read_disturbance(f"worker:0=noise:empirical:{path}")
    assert read.effect == Noise("empirical", values=(1.0, 3.0))
    table = disturb([read], cluster).noise[0].tolist()
    assert {round(value * 2 / ONE) for value in table} == {1, 3}
    path.write_text("1\n2 3\n")
    with pytest.raises(SimvizError, match=r"line 2 of .* is '2 3', not one number"):
        read_disturbance(f"worker:0=noise:empirical:{path}")


def times(costs: CostTable, cluster: Cluster) -> list[list[int]]:
    """[N][D] run times as the tables find them."""
    return [[int(row[costs.kinds.index(device.kind)]) for device in cluster.devices] for row in costs.run_ns]


def test_slower_devices_take_exact_multiples_rounded_up(cluster: Cluster) -> None:
    costs = costs_of(cluster, (10, 7), (3, -1))
    one = disturbed(cluster, "worker:1=slow:1.5", "ps:0=slow:0.5", "worker:2/GPU:0=slow:1.1")
    # ps:0, ps:1, worker:0 and its GPU, worker:1 and its GPU, worker:2 and its GPU
    assert times(slowed_costs(costs, one.slower), one.cluster) == [
        [5, 10, 10, 7, 15, 11, 10, 8],
        [2, 3, 3, -1, 5, -1, 3, -1],
    ]
    assert times(costs, cluster) == [[10, 10, 10, 7, 10, 7, 10, 7], [3, 3, 3, -1, 3, -1, 3, -1]]


def test_a_slower_kind_has_the_error_and_the_source_of_its_price(cluster: Cluster) -> None:
    costs = costs_of(cluster, (10, 7), (3, -1))
    errors = PriceErrors(("none", "one"), ids([0, 1]), np.array([[0.1, 0.2], [0.3, 0.4]]))
    costs = replace(costs, errors=errors, kind_source=np.array([[STATIC, MEASURED]] * 2, np.int32))
    slow = slowed_costs(costs, disturbed(cluster, "worker:2/GPU:0=slow:1.1").slower)
    assert slow.errors is not None
    assert slow.errors.relative.tolist() == [[0.1, 0.2, 0.2], [0.3, 0.4, 0.4]]
    assert slow.sources.shape == slow.run_ns.shape


@given(st.integers(0, 2**53), st.integers(1, 10**6))
def test_slow_factors_are_exact_however_long_an_op_takes(run_ns: int, thousandths: int) -> None:
    cluster = simulator.load_cluster("1cpu")
    factor = Fraction(thousandths, 1000)
    one = disturbed(cluster, f"localhost:0=slow:{thousandths // 1000}.{thousandths % 1000:03}")
    ((found,),) = times(slowed_costs(costs_of(cluster, (run_ns,)), one.slower), one.cluster)
    assert found == min(2**53, -(-run_ns * factor.numerator // factor.denominator))


def test_what_names_its_target_more_exactly_holds(cluster: Cluster) -> None:
    texts = ["worker:1/GPU:0=slow:5", "worker:1=slow:4", "worker:*=slow:3", "*=slow:2"]
    costs = costs_of(cluster, (1, 1))
    for order in (texts, texts[::-1]):
        one = disturbed(cluster, *order)
        assert times(slowed_costs(costs, one.slower), one.cluster) == [[2, 2, 3, 3, 4, 5, 3, 3]]


def test_columns_of_a_run(cluster: Cluster) -> None:
    one = disturbed(
        cluster,
        "worker:*=noise:exponential",
        "worker:1=noise:lognormal:0.5",
        "worker:0=late:3 ms",
        "ps:*=pause:every=5 ms,for=1 ms,phase=2 ms",
        "worker:2=crash:at=9 ms,for=1 ms",
        "ps:1=crash:at=9 ms,for=2 ms,restore=3 ms,checkpoint=4 ms",
        "worker:2=crash:at=1 ms,for=1 ms",
        "link:worker:0->ps:1=traffic:1 GB/s,bytes=1 kB",
    )
    assert one.noise.shape == (2, QUANTILES)
    assert one.noise_of.tolist() == [-1, -1, 0, 1, 0]
    assert one.up_ns.tolist() == [0, 0, 3 * MS, 0, 0]
    assert one.pauses == (*[Pauses(2 * MS, 5 * MS, MS)] * 2, *[NO_PAUSE] * 3)
    assert one.crashes == (
        (4, Crash(MS, MS)),
        (1, Crash(9 * MS, 2 * MS, 3 * MS, 4 * MS)),
        (4, Crash(9 * MS, MS)),
    )
    (sender,) = one.senders
    assert [cluster.devices[row].short for row in sender[:2]] == ["worker:0/CPU:0", "ps:1/CPU:0"]
    assert (sender.nbytes, sender.period_ns) == (1000, 1000)


def test_nothing_changes_nothing(cluster: Cluster) -> None:
    one = disturbed(cluster)
    assert one.cluster.devices == cluster.devices
    assert one.cluster.links == cluster.links
    assert one.noise.shape == (0, QUANTILES)
    assert set(one.noise_of.tolist()) == {-1}


def test_links_are_degraded_by_name_or_by_ends(cluster: Cluster) -> None:
    rates = {link.name: link.bytes_per_s for link in cluster.links}

    def changed(*texts: str) -> dict[str, int]:
        links = disturbed(cluster, *texts).cluster.links
        return {link.name: link.bytes_per_s for link in links if link.bytes_per_s != rates[link.name]}

    slow = rates["ps0 nic out"] // 4
    assert changed("link:ps0 nic out=degrade:4") == {"ps0 nic out": slow}
    assert changed("link:ps:0->worker:1=degrade:4") == {"ps0 nic out": slow, "worker1 nic in": slow}
    both = changed("link:ps:0->worker:1=degrade:4", "link:ps0 nic out=degrade:8")
    assert both == {"ps0 nic out": slow // 2, "worker1 nic in": slow}
    assert set(changed("link:worker:0/GPU:0->worker:0=degrade:2")) == {"worker0 gpu0 pcie out"}


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["worker:7=slow:2"], "no task 'worker:7'; it has ps:0, ps:1, worker:0"),
        (["wroker:1=slow:2"], "Did you mean 'worker:1'"),
        (["chief:*=slow:2"], "no task 'chief:*'"),
        (["worker:1/GPU:0=late:1 s"], "only a whole task"),
        (["link:ps0 nic=degrade:2"], "no link 'ps0 nic'; it has worker0 gpu0 pcie out"),
        (["link:ps:0->worker:9=degrade:2"], "no task or device 'worker:9'"),
        (["link:ps:0->ps:0=degrade:2"], "no link leads from ps:0 to ps:0"),
        (["link:ps:0->ps:1->ps:0=degrade:2"], "no pair of ends"),
        (["link:ps0 nic out=traffic:1 GB/s"], "no pair of ends"),
        (["worker:1=slow:2", "worker:1=slow:3"], "give one"),
        (["worker:*=late:2 s", "worker:*=late:2 s"], "give one"),
        (["ps:0=crash:at=1 s,for=2 s", "ps:*=crash:at=2 s,for=1 s"], "before it is back"),
    ],
)
def test_what_the_cluster_lacks_is_named(cluster: Cluster, texts: list[str], says: str) -> None:
    with pytest.raises(SimvizError) as caught:
        disturbed(cluster, *texts)
    assert says in str(caught.value)
    assert repr(texts[0]) in str(caught.value) or "crashes" in str(caught.value)


def test_costs_of_another_cluster_are_refused(cluster: Cluster) -> None:
    other = simulator.load_cluster("1cpu")
    with pytest.raises(ClusterError, match="no column for 'a100'"):
        slowed_costs(costs_of(other, (1,)), disturbed(cluster, "worker:1=slow:2").slower)


def test_what_is_on_one_task_or_on_links_is_singled_out(cluster: Cluster) -> None:
    texts = ("worker:1/GPU:0=slow:2", "ps:0=late:1 s", "worker:*=slow:3", "link:ps0 nic in=degrade:2", "*=late:1 s")
    read = [read_disturbance(text) for text in texts]
    assert singled_out(read, cluster) == (read[0], read[1], read[3])


def test_what_was_said_of_a_worker_says_nothing_where_it_is_not(cluster: Cluster) -> None:
    texts = ["worker:2=slow:2", "worker:*=slow:3", "worker:1=late:1 s", "ps:1=late:1 s"]
    texts += ["link:ps:0->worker:2=degrade:2", "link:worker2 nic in=degrade:2", "link:ps0 nic in=degrade:2"]
    read = [read_disturbance(text) for text in texts]
    assert present(read, cluster) == tuple(read)
    smaller = simulator.load_cluster("ps=1,worker=2x1gpu")
    assert present(read, smaller) == (read[1], read[2], read[6])
