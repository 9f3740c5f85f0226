"""Memory of values that lists, stacks and arrays keep, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.execution.evaluate import evaluate_with_peaks
from simulator.execution.laws import check_trace
from simulator.execution.options import SimulationOptions
from simulator.execution.preparing import prepare
from simulator.execution.simulate import simulate
from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue
from simulator.partitioning.cut import partition
from tests.execution.cases import apart, assigned, costs, whole
from tests.execution.test_engine import story
from tests.execution.test_memory import curve
from tests.strategies import INT32, Rows, loop, shapes_attr, type_attr, typed

RESOURCE, VARIANT = 20, 21


def number(made: Rows, name: str) -> str:
    return made.add(name, "Const", dtype=type_attr(INT32), value=typed("Const")["value"])


def with_list() -> Rows:
    """x -> a, kept in a list while b and c run; then a comes out of the list, and d reads it. 100 bytes each."""
    made = story("x = Placeholder", "a = Neg x", "b = Neg x", "c = Neg b")
    kind = {"element_dtype": type_attr()}
    number(made, "shape")
    made.add("none", "EmptyTensorList", ["shape", "shape"], shape_type=type_attr(INT32), **kind)
    made.add("full", "TensorListPushBack", ["none", "a"], **kind)
    made.add("handed", "Identity", ["full"], T=type_attr(VARIANT))
    made.add("out", "TensorListPopBack", ["handed", "shape", "^c"], **kind, _output_shapes=shapes_attr((), (25,)))
    made.add("d", "Neg", ["out:1"], **typed("Neg", (25,)))
    return made


def with_array() -> Rows:
    """The same with an array, of which a part is read."""
    made = story("x = Placeholder", "a = Neg x", "b = Neg x", "c = Neg b")
    number(made, "size")
    made.add("array", "TensorArrayV3", ["size"], dtype=type_attr())
    made.add("written", "TensorArrayWriteV3", ["array", "size", "a", "array:1"], T=type_attr())
    kind = {"dtype": type_attr(), "_output_shapes": shapes_attr((25,))}
    made.add("out", "TensorArrayReadV3", ["array", "size", "written", "^c"], **kind)
    made.add("d", "Neg", ["out"], **typed("Neg", (25,)))
    return made


def peak(graph: Graph, devices: int = 1, rows: list[int] | None = None, **options: object) -> list[int]:
    """The peaks of a step by both engines, as a plan's verdict and as a trace's."""
    on, step = apart(devices), whole(graph)
    rows = [0] * len(graph) if rows is None else rows
    priced = costs(graph, on, 10)
    found = []
    for engine in ("python", "compiled"):
        how = SimulationOptions(engine=engine, **options)  # type: ignore[arg-type]  # trips
        pieces = partition(graph, assigned(on, rows), on, legal=False, step=step)
        found.append(simulate(pieces, on, priced, how).peak_bytes.tolist())
        found.append(evaluate_with_peaks(prepare(graph, step, on, priced, how), [rows]).peak_bytes[0].tolist())
    assert found[0] == found[1] == found[2] == found[3]
    return list(found[0])


def test_what_is_in_a_list_lives_until_the_last_reader_of_what_is_popped() -> None:
    made = with_list()
    graph, on = made.built(), apart(1)
    step = whole(graph)
    pieces = partition(graph, assigned(on, [0] * len(graph)), on, legal=False, step=step)
    times = [10 if op == "Neg" else 0 for op in graph.ops]
    trace = simulate(pieces, on, costs(graph, on, times))
    # x, which the client keeps, a, and from 10 what b makes, over which c is written; then d is written over a
    assert curve(trace, 0) == [(0, 200), (10, 300), (30, 200), (40, 0)]
    assert peak(graph) == [300]


def test_an_array_keeps_what_was_written_as_long_as_some_part_is_read() -> None:
    assert peak(with_array().built()) == peak(with_list().built()) == [300]


@pytest.mark.parametrize("made", [with_list(), with_array()])
def test_what_is_taken_out_elsewhere_is_a_copy_there(made: Rows) -> None:
    graph = made.built()
    rows = [int(name in ("out", "d")) for name in graph.names]
    assert peak(graph, 2, rows)[1] == 100  # what comes out, over which d is written


@pytest.mark.parametrize("by", ["list", "array"])
def test_rows_of_a_tensor_are_copied_into_a_list_or_an_array(by: str) -> None:
    """x, a, the copies of its rows, and the row that Neg makes, as x stays and a row is a part of the copies."""
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder", (5, 5)))
    made.add("a", "Exp", ["x"], **typed("Exp", (5, 5)))
    number(made, "n")
    one = {"_output_shapes": shapes_attr((5,))}
    if by == "list":
        kind = {"element_dtype": type_attr()}
        made.add("full", "TensorListFromTensor", ["a", "n"], shape_type=type_attr(INT32), **kind)
        made.add("row", "TensorListGetItem", ["full", "n", "n"], **kind, **one)
    else:
        made.add("array", "TensorArrayV3", ["n"], dtype=type_attr())
        made.add("full", "TensorArrayScatterV3", ["array", "n", "a", "array:1"], T=type_attr())
        made.add("row", "TensorArrayReadV3", ["array", "n", "full"], dtype=type_attr(), **one)
    made.add("b", "Neg", ["row"], **typed("Neg", (5,)))
    assert peak(made.built()) == [300]


def there_and_back(*, by: str) -> Graph:
    """A loop that keeps what it makes in each iteration, and one that takes it back; by a stack or a list."""
    made = Rows()
    made.add("x", "Placeholder", **typed("Placeholder", ()))
    kind = {"elem_type" if by == "stack" else "element_dtype": type_attr()}
    number(made, "most")
    if by == "stack":
        made.add("kept", "StackV2", ["most"], **kind)
    else:
        made.add("kept", "EmptyTensorList", ["most", "most"], shape_type=type_attr(INT32), **kind)
    loop(made, start="x")
    loop(made, start="while/Exit", prefix="back")
    handed = {"T": type_attr(RESOURCE if by == "stack" else VARIANT)}
    for prefix, source in (("while", "kept"), ("back", "kept" if by == "stack" else "while/kept/Exit")):
        frame = {"frame_name": AttrValue(s=prefix.encode()), "parallel_iterations": AttrValue(i=10)}
        still = {"is_constant": AttrValue(b=by == "stack")}
        made.add(f"{prefix}/kept/Enter", "Enter", [source], **handed, **frame, **still)
        now = f"{prefix}/kept/Enter"
        if by == "list":
            now = f"{prefix}/kept/Merge"
            made.add(now, "Merge", [f"{prefix}/kept/Enter", f"{prefix}/kept/Next"], N=AttrValue(i=2), **handed)
            made.add(f"{prefix}/kept/Switch", "Switch", [now, f"{prefix}/LoopCond"], **handed)
            now = f"{prefix}/kept/Switch:1"
        if prefix == "while":
            made.add("push", "StackPushV2" if by == "stack" else "TensorListPushBack", [now, "while/Neg"], **(
                {"T": type_attr()} if by == "stack" else kind))  # fmt: skip
        elif by == "stack":
            made.add("pop", "StackPopV2", [now, "^back/Switch"], **kind, _output_shapes=shapes_attr(()))
        else:
            made.add("pop", "TensorListPopBack", [now, "shape"], **kind, _output_shapes=shapes_attr((), ()))
        if by == "list":
            made.add(f"{prefix}/kept/Next", "NextIteration", ["push" if prefix == "while" else "pop"], **handed)
            made.add(f"{prefix}/kept/Exit", "Exit", [f"{prefix}/kept/Switch"], **handed)
    if by == "list":
        frame = {"frame_name": AttrValue(s=b"back"), "is_constant": AttrValue(b=True)}
        made.add("shape", "Enter", ["most"], T=type_attr(INT32), **frame)
    made.add("use", "Neg", ["pop:1" if by == "list" else "pop"], **typed("Neg", ()))
    return made.built()


@pytest.mark.parametrize("by", ["stack", "list"])
def test_a_loop_keeps_what_the_loop_of_its_gradient_takes_back(by: str) -> None:
    graph = there_and_back(by=by)
    few, many = (peak(graph, trips={"*": trips})[0] for trips in (3, 40))
    assert many - few == 37 * 4  # a number in each iteration


def test_what_was_pushed_last_is_freed_first() -> None:
    graph, on = there_and_back(by="stack"), apart(1)
    pieces = partition(graph, assigned(on, [0] * len(graph)), on, legal=False, step=whole(graph))
    trace = simulate(pieces, on, costs(graph, on, 10), SimulationOptions(trips={"*": 9}))
    assert trace.allocations is not None
    names = [pieces.graph.names[pieces.graph.tensor_node[row]] if row >= 0 else "" for row in trace.allocations.tensor]
    mine = [row for row, name in enumerate(names) if name == "while/Neg"]
    born, freed = trace.allocations.start_ns[mine], trace.allocations.end_ns[mine]
    assert len(mine) == 9
    assert np.argsort(born).tolist() == np.argsort(-freed).tolist()


def moved(graph: Graph, rows: list[int], **options: object) -> list[int]:
    """The bytes of the transfers of a step, in order of their tensors and iterations; both engines agree on it."""
    on, step = apart(2), whole(graph)
    pieces, priced = partition(graph, assigned(on, rows), on, legal=False, step=step), costs(graph, on, 10)
    both = []
    for engine in ("python", "compiled"):
        how = SimulationOptions(engine=engine, **options)  # type: ignore[arg-type]  # trips
        trace = simulate(pieces, on, priced, how)
        assert not check_trace(trace, pieces, on)
        both.append((trace.transfers.nbytes.tolist(), trace.makespan))
    assert both[0] == both[1]
    return list(both[0][0])


def test_a_list_crosses_with_all_that_it_holds() -> None:
    graph = with_list().built()
    assert moved(graph, [int(name in ("out", "d")) for name in graph.names]) == [0, 100]  # a control edge comes first


def test_a_list_that_goes_back_and_forth_is_copied_in_each_iteration() -> None:
    """The list waits on one device for the values that are pushed on the other: a number more in each iteration."""
    graph = there_and_back(by="list")
    sizes = moved(graph, [int(name == "push") for name in graph.names], trips={"*": 4})
    assert sorted(size for size in sizes if size > 0) == [4, 4, 4, 4, 4, 4, 8, 8, 12, 12, 16]


@pytest.mark.parametrize("far", [("push",), ("pop", "use"), ("push", "pop", "use"), ("while/Neg",)])
def test_copies_of_a_list_take_the_same_memory_for_a_plan_and_for_its_trace(far: tuple[str, ...]) -> None:
    graph = there_and_back(by="list")
    here = peak(graph, 2, [0] * len(graph), trips={"*": 5})
    assert here[1] == 0 < min(peak(graph, 2, [int(name in far) for name in graph.names], trips={"*": 5}))
