"""The work for a message is that of one core: a lane that stands for more has only its share of it, and the rest is
done while bytes are on the wires.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.cluster import MAX_CORES, Cluster, with_protocol
from simulator.cluster.contention import CONTENTIONS
from simulator.cluster.protocols import Protocol
from simulator.columns import ids
from simulator.errors import ClusterError
from simulator.execution.engine import makespan, run
from simulator.execution.options import SimulationOptions
from simulator.execution.tables import Tables, of_step
from simulator.execution.transfers import transfers_of
from simulator.graph.graph import Graph
from tests.execution.cases import PROTOCOLS, apart, attrs_of, cluster, costs, dags, whole, with_cores, worlds
from tests.execution.test_compiled import check_equal
from tests.strategies import Rows

COPIES = Protocol("copies", send_ps_per_byte=9_000, receive_ps_per_byte=2_000, latency_ns=50)
NUMBERS = st.sampled_from([1, 2, 3, 7, 20, MAX_CORES])


def sending(on: Cluster, sizes: Sequence[int]) -> Tables:
    """Values of so many bytes, all there at once, x0, y0, x1, y1, ...; each x is to be read by its y, which ends at
    once.
    """
    draft = Rows()
    for at, nbytes in enumerate(sizes):
        draft.add(f"x{at}", "Const", **attrs_of("Const", 1, nbytes // 4))
        draft.add(f"y{at}", "Neg", [f"x{at}"], **attrs_of("Neg", 1, nbytes // 4))
    graph = draft.built()
    return of_step(graph, whole(graph), on, costs(graph, on, 0))


@settings(deadline=None, max_examples=25)
@given(dags(), st.data())
def test_one_core_works_on_one_message_after_the_other(graph: Graph, data: st.DataObject) -> None:
    """As if nobody had ever counted cores: all work is the lane's, and a way has one latency for all sizes."""
    on, priced, rows, _ = data.draw(worlds(graph))
    on = with_cores(on, [1])
    on = replace(on, devices=tuple(replace(device, chip=None) for device in on.devices))
    tables = of_step(graph, whole(graph), on, priced)
    crossing = transfers_of(tables, ids(rows))
    talk = [on.protocol(s, t) for s, t in zip(crossing.source.tolist(), crossing.target.tolist(), strict=True)]
    nbytes = tables.tensor_bytes[crossing.tensor].tolist()
    assert crossing.latency_ns.tolist() == tables.routes.latency_ns[tables.routes.pace[crossing.route]].tolist()
    assert crossing.pack_ns.tolist() == [one.pack_ns(size) for one, size in zip(talk, nbytes, strict=True)]
    assert crossing.unpack_ns.tolist() == [one.unpack_ns(size) for one, size in zip(talk, nbytes, strict=True)]


@given(st.integers(0, 10**6), PROTOCOLS, NUMBERS, NUMBERS, st.sampled_from(CONTENTIONS))
def test_a_lone_transfer_is_packed_sent_and_unpacked_in_a_stream_by_many_cores(
    size: int, protocol: Protocol, here: int, there: int, contention: str
) -> None:
    """By one core at each end one after the other; with many the slowest of the three counts, and work per message."""
    one = replace(apart(2), between_tasks=protocol)
    some, many = with_cores(one, [here, there]), with_cores(one, [MAX_CORES])
    spans = [
        makespan(sending(on, [4 * size]), [0, 1], options=SimulationOptions(contention=contention))
        for on in (one, some, many)
    ]
    assert spans[0] >= spans[1] >= spans[2]
    for on, span in zip((one, some, many), spans, strict=True):
        ends = on.pack_ns(0, 1, 4 * size) + on.unpack_ns(0, 1, 4 * size)
        assert span == protocol.request_ns + ends + on.transfer_ns(0, 1, 4 * size)
    fixed = protocol.send_ns + protocol.receive_ns
    works = [protocol.pack_ns(4 * size) - protocol.send_ns, protocol.unpack_ns(4 * size) - protocol.receive_ns]
    wire = with_protocol(one, "plain").transfer_ns(0, 1, 4 * size)
    around = protocol.request_ns + protocol.latency_ns + fixed
    assert spans[0] == around + wire + sum(works)
    latency = with_protocol(one, "plain").latency_ns(0, 1)
    assert spans[2] >= around + latency + max(wire - latency, *works)
    if not protocol.threads:
        assert spans[2] <= around + latency + max(wire - latency, *works) + sum(works) // MAX_CORES + 3


@given(st.integers(1, 20), st.integers(0, 19), st.integers(1, 10**6), st.booleans())
def test_as_many_messages_as_cores_pass_side_by_side(count: int, idle: int, size: int, back: bool) -> None:
    """From one CPU to others, or back: nobody waits for more than the lane's share of the others."""
    cores = count + idle
    names = [f"w:{at}/CPU:0" for at in range(count + 1)]
    on = replace(cluster(names), between_tasks=COPIES)
    at = [*range(1, count + 1)]
    tables = sending(on, [4 * size] * count)
    rows = [row for other in at for row in ((other, 0) if back else (0, other))]
    work = COPIES.unpack_ns(4 * size) if back else COPIES.pack_ns(4 * size)
    alone = makespan(sending(on, [4 * size]), [0, 1])
    assert makespan(tables, rows) == alone + (count - 1) * work, "one core"
    many = sending(with_cores(on, [cores]), [4 * size] * count)
    alone = makespan(sending(with_cores(on, [cores]), [4 * size]), [0, 1])
    shares = (count - 1) * -(-work // cores)
    assert alone <= makespan(many, rows) == alone + shares
    assert shares < work + count


@given(st.integers(1, 20), st.integers(0, 19), st.integers(1, 10**6))
def test_no_more_cores_work_on_messages_than_there_are_threads(threads: int, more: int, size: int) -> None:
    """Messages keep a lane busy as if it had no more cores than those."""
    limited = replace(apart(2), between_tasks=replace(COPIES, threads=threads))
    few, many = (with_cores(limited, [cores]) for cores in (threads, threads + more))
    for count in (1, 5):
        spans = [makespan(sending(on, [4 * size] * count), [0, 1] * count) for on in (few, many)]
        assert spans[0] == spans[1]
    assert many.cores(0, 1) == (threads, threads)


def test_a_small_message_overtakes_a_large_one() -> None:
    """1000 bytes and 4 to a processor of 4 cores, 9 ns of work per byte at the source and 2 at the target."""
    on = replace(with_cores(apart(2), [3, 4]), between_tasks=COPIES)
    tables = sending(on, [1000, 4])
    outcome = run(tables, [0, 1, 0, 1])
    # packed by a third of 9000 ns, then one of 36; the wire is free again when the bytes are through
    assert outcome.moments.packed_ns.tolist() == [3000, 3012]
    assert outcome.moments.sent_ns.tolist() == [3000, 4000]
    assert outcome.moments.through_ns.tolist() == [4000, 4004]
    # 150 ns of latency, and what is left of packing, which takes longest, less what lanes and wire had of that time
    assert outcome.moments.arrived_ns.tolist() == [4000 + 150 + 9000 - 3000 - 1000 - 500, 4004 + 150 + 36 - 12 - 4 - 2]
    assert outcome.moments.unpacked_ns.tolist() == [8650 + 500, 4172 + 2]
    for contention in CONTENTIONS:
        for order in ("fifo", "tensorflow"):
            check_equal(tables, [0, 1, 0, 1], None, SimulationOptions(order, contention))


@pytest.mark.parametrize("contention", CONTENTIONS)
def test_many_that_wait_for_the_wire_may_all_overtake_each_other(contention: str) -> None:
    """All are in the heap of ends, and those that wait for their turn a second time."""
    on = replace(with_cores(apart(2), [20]), between_tasks=Protocol("unpacks", receive_ps_per_byte=9_000))
    check_equal(sending(on, [400, 4] * 100), [0, 1] * 200, None, SimulationOptions("fifo", contention))


def test_a_gpu_has_the_cores_of_the_processor_that_stands_for_it() -> None:
    on = cluster(["w:0/CPU:0", "w:0/GPU:0", "v:0/GPU:0"])
    on = replace(with_cores(on, [10, 3, 2]), between_tasks=COPIES)
    assert on.cores(1, 2) == (10, 2), "a GPU whose task has no CPU stands for itself"
    assert (on.pack_ns(1, 2, 1000), on.unpack_ns(1, 2, 1000)) == (900, 1000)
    crossing = transfers_of(sending(on, [1000]), ids([1, 2]))
    assert (crossing.pack_ns.tolist(), crossing.unpack_ns.tolist()) == ([900], [1000])
    assert np.array_equal(crossing.latency_ns, [on.latency_ns(1, 2, 1000)])


@pytest.mark.parametrize("cores", [0, -1, MAX_CORES + 1, 1.5])
def test_an_impossible_number_of_cores_is_refused(cores: Any) -> None:
    with pytest.raises(ClusterError, match=f"has {cores} cores; give 1 to {MAX_CORES}"):
        with_cores(apart(2), [cores])
