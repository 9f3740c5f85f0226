from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import estimate, simulate
from simulator.assignment import COST, REQUESTED, RULES, Assignment
from simulator.cluster.description import load_cluster
from simulator.columns import flags, ids, ints
from simulator.comparison.comparison import compare_items
from simulator.comparison.cut_nodes import CutNode, canonical, same_elements
from simulator.errors import SimvizError
from simulator.graph.building import build
from simulator.graph.editor import edited
from simulator.graph.graph import Graph, Lowered
from simulator.graph.graph_def import graph_def
from simulator.graph.messages import AttrValue
from simulator.graph.step import Step
from simulator.partitioning.cut import partition
from simulator.partitioning.partitions import Partitions
from tests.strategies import Rows, graphs, loop, type_attr, typed

CPUS = load_cluster("cpu=3")
TASKS = load_cluster("ps=1,worker=2x2gpu")


def placed(graph: Graph, devices: list[int], cluster: Any = CPUS) -> Assignment:
    names = tuple(device.name for device in cluster.devices)
    return Assignment(names, ids(devices), ids([COST] * len(graph)), "by hand", "by hand")


def everything(graph: Graph) -> Step:
    return Step((), graph.names, flags([True] * len(graph)), "all")


def cut(graph: Graph, devices: list[int], cluster: Any = CPUS) -> Partitions:
    return partition(graph, placed(graph, devices, cluster), cluster, step=everything(graph))


def branches() -> Graph:
    """A variable read on two devices, one of which also waits for it, and a constant that both use."""
    rows = Rows()
    rows.add("x", "Placeholder", **typed("Placeholder", (4,)))
    rows.add("one", "Const", **typed("Const", ()))
    rows.add("a", "Mul", ["x", "one"], **typed("Mul", (4,)))
    rows.add("b", "Mul", ["x", "one", "^a"], **typed("Mul", (4,)))
    rows.add("sum", "AddV2", ["a", "b"], **typed("AddV2", (4,)))
    return rows.built()


BRANCHES = branches()
SPREAD = [0, 0, 1, 2, 0]


def pieces(partitions: Partitions) -> list[Any]:
    """A GraphDef per device, as TensorFlow shows a cut."""
    whole = graph_def(partitions.graph)
    found: dict[str, Any] = {}
    for node in whole.node:
        piece = found.setdefault(node.device, type(whole)())
        piece.node.add().CopyFrom(node)
    return list(found.values())


def test_a_placement_agrees_with_itself() -> None:
    ours = placed(BRANCHES, SPREAD)
    result = compare_items(ours, ours, graph=BRANCHES)
    assert (result.agree, result.of, result.differences) == (5, 5, ())


def test_a_node_that_lies_elsewhere_is_named_with_both_sides_and_the_rule() -> None:
    ours = replace(placed(BRANCHES, SPREAD), why=ids([COST, COST, COST, REQUESTED, COST]))
    result = compare_items(ours, placed(BRANCHES, [0, 0, 1, 1, 0]), graph=BRANCHES)
    (one,) = result.differences
    assert (result.agree, result.of, one.node, one.rule) == (4, 5, "b", RULES[REQUESTED])
    assert (one.ours[-5:], one.theirs[-5:]) == ("CPU:2", "CPU:1")


def test_a_measured_placement_may_lack_nodes_and_have_others() -> None:
    ours = placed(BRANCHES, SPREAD)
    theirs = {name: ours.name_of(row) for row, name in enumerate(BRANCHES.names)}
    del theirs["x"]
    theirs["new"] = "/job:localhost/replica:0/task:0/device:CPU:0"
    result = compare_items(ours, theirs, graph=BRANCHES)
    assert (result.agree, result.of) == (4, 6)
    assert [(one.node, one.ours == "", one.theirs == "") for one in result.differences] == [
        ("x", False, True),
        ("new", True, False),
    ]


def test_nodes_without_a_graph_are_called_by_their_rows() -> None:
    (one,) = compare_items(placed(BRANCHES, SPREAD), placed(BRANCHES, [1, *SPREAD[1:]])).differences
    assert one.node == "node 0"


def test_results_of_different_kinds_are_not_compared() -> None:
    with pytest.raises(SimvizError, match="different kinds"):
        compare_items(placed(BRANCHES, SPREAD), cut(BRANCHES, SPREAD))
    with pytest.raises(SimvizError, match="different kinds"):
        compare_items(cut(BRANCHES, SPREAD), {})


@given(graph=graphs(max_nodes=12), random=st.randoms(use_true_random=False))
def test_a_cut_agrees_with_itself_piece_by_piece(graph: Graph, random: Any) -> None:
    devices = [random.randrange(len(TASKS)) for _ in graph.names]
    ours = cut(graph, devices, TASKS)
    for theirs in (ours, pieces(ours)):
        result = compare_items(ours, theirs, graph=graph)
        assert result.differences == ()
        assert result.agree == result.raw == result.of == len(ours.graph)


def node(theirs: list[Any], wanted: Callable[[Any], bool]) -> Any:
    return next(one for piece in theirs for one in piece.node if wanted(one))


def change_op(theirs: list[Any]) -> None:
    node(theirs, lambda one: one.name == "a").op = "AddV2"


def change_device(theirs: list[Any]) -> None:
    node(theirs, lambda one: one.name == "a").device = CPUS.devices[0].name


def swap_inputs(theirs: list[Any]) -> None:
    one = node(theirs, lambda one: one.name == "sum")
    one.input[0], one.input[1] = one.input[1], one.input[0]


def drop_control(theirs: list[Any]) -> None:
    del node(theirs, lambda one: one.name == "b").input[-1]


def drop_node(theirs: list[Any]) -> None:
    piece = next(piece for piece in theirs if any(one.name == "sum" for one in piece.node))
    kept = [one for one in piece.node if one.name != "sum"]
    del piece.node[:]
    piece.node.extend(kept)


def send_another_tensor(theirs: list[Any]) -> None:
    node(theirs, lambda one: one.op == "_Send" and one.input[0] == "a").input[0] = "x"


def cross_the_keys(theirs: list[Any]) -> None:
    node(theirs, lambda one: one.op == "_Recv").attr["tensor_name"].s = b"edge_999_x"


def receive_on_host(theirs: list[Any]) -> None:
    node(theirs, lambda one: one.op == "_Recv").op = "_HostRecv"


def say_another_reader(theirs: list[Any]) -> None:
    node(theirs, lambda one: one.op == "_Send").attr["_dst"].s = b"sum"


def send_another_type(theirs: list[Any]) -> None:
    node(theirs, lambda one: one.op == "_Send").attr["T"].type = 2


def end_at_the_client(theirs: list[Any]) -> None:
    node(theirs, lambda one: one.op == "_Recv").attr["client_terminated"].b = True


def transpose(theirs: list[Any]) -> None:
    node(theirs, lambda one: one.name == "a").attr["transpose_a"].b = True


def forget_a_shape(theirs: list[Any]) -> None:
    del node(theirs, lambda one: one.name == "x").attr["shape"]


def change_a_constant(theirs: list[Any]) -> None:
    node(theirs, lambda one: one.op == "Const").attr["value"].tensor.float_val.append(7)


def rename(theirs: list[Any]) -> None:
    sent = node(theirs, lambda one: one.op == "_Send")
    sent.name += "0"


def send_twice(theirs: list[Any]) -> None:
    for piece in theirs:
        for one in [one for one in piece.node if one.op in ("_Send", "_Recv") and one.attr["_src"].s == b"x"]:
            piece.node.add().CopyFrom(one)


MUTATIONS = [
    change_op,
    change_device,
    swap_inputs,
    drop_control,
    drop_node,
    send_another_tensor,
    cross_the_keys,
    receive_on_host,
    say_another_reader,
    send_another_type,
    end_at_the_client,
    transpose,
    forget_a_shape,
    change_a_constant,
    rename,
    send_twice,
]


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_a_mutated_record_differs(mutate: Callable[[list[Any]], None]) -> None:
    ours = cut(BRANCHES, SPREAD)
    theirs = pieces(ours)
    whole = compare_items(ours, theirs, graph=BRANCHES)
    assert whole.differences == ()
    mutate(theirs)
    result = compare_items(ours, theirs, graph=BRANCHES)
    assert result.differences
    assert result.raw == result.agree == result.of - len(result.differences) < result.of


@pytest.mark.parametrize(
    ("mutate", "item", "rule"),
    [
        (change_op, "a", "op: "),
        (change_device, "a", "device: "),
        (swap_inputs, "sum", "inputs: "),
        (drop_control, "b", "control inputs: "),
        (drop_node, "sum", "only ours: "),
        (transpose, "a", "attribute transpose_a: "),
        (change_a_constant, "one/replicate/_0 on /job:localhost/replica:0/task:0", "attribute value: "),
    ],
)
def test_a_difference_says_what_differs_and_by_which_rule(mutate: Any, item: str, rule: str) -> None:
    ours = cut(BRANCHES, SPREAD)
    theirs = pieces(ours)
    mutate(theirs)
    (one,) = (one for one in compare_items(ours, theirs, graph=BRANCHES).differences if one.node == item)
    assert one.rule.startswith(rule)
    assert "§" in one.rule
    assert one.ours != one.theirs


def test_what_tensorflow_fills_in_and_what_is_not_compared() -> None:
    ours = cut(BRANCHES, SPREAD)
    theirs = pieces(ours)
    node(theirs, lambda one: one.name == "x").attr["_output_shapes"].s = b"of a later pass"
    node(theirs, lambda one: one.op == "_Send").attr["send_device_incarnation"].i = 1234
    node(theirs, lambda one: one.name == "sum").attr["T"].type = 1
    assert compare_items(ours, theirs, graph=BRANCHES).differences == ()


def test_a_default_counts_as_said_where_only_one_side_says_it() -> None:
    rows = Rows()
    rows.add("a", "Placeholder", **typed("Placeholder", (4, 4)))
    rows.add("b", "MatMul", ["a", "a"], **typed("MatMul", (4, 4)))
    graph = rows.built()
    ours = cut(graph, [0, 0])
    theirs = pieces(ours)
    product = node(theirs, lambda one: one.name == "b")
    product.attr["transpose_a"].b = False
    assert compare_items(ours, theirs, graph=graph).differences == ()
    product.attr["transpose_a"].b = True
    assert [one.node for one in compare_items(ours, theirs, graph=graph).differences] == ["b"]


def test_of_a_large_constant_only_type_and_shape_are_compared() -> None:
    rows = Rows()
    value = constant([2000], b"\1" * 8000)
    rows.add("k", "Const", dtype=type_attr(), value=value)
    graph = rows.built()
    ours = cut(graph, [0])
    theirs = pieces(ours)
    sent = node(theirs, lambda one: one.name == "k").attr["value"].tensor
    sent.tensor_content = b""
    assert compare_items(ours, theirs, graph=graph).differences == ()
    sent.tensor_shape.dim[0].size = 1999
    assert [one.node for one in compare_items(ours, theirs, graph=graph).differences] == ["k"]


def constant(shape: list[int], content: bytes) -> Any:
    return AttrValue(
        tensor={"dtype": 1, "tensor_shape": {"dim": [{"size": size} for size in shape]}, "tensor_content": content}
    )


def fan_in(sources: int) -> tuple[Graph, list[int]]:
    """A node that waits for many on another device."""
    rows = Rows()
    for number in range(sources):
        rows.add(f"s{number:02}", "Placeholder", **typed("Placeholder"))
    rows.add("all", "NoOp", [f"^s{number:02}" for number in range(sources)])
    return rows.built(), [0] * sources + [1]


def exchange_fours(theirs: list[Any], first: str, second: str, *, sends: bool = True) -> None:
    """Give the nodes of the control pairs of two sources each other's numbers."""
    number = {}
    for one in (one for piece in theirs for one in piece.node):
        if one.op == "_Send" and (src := one.attr["_src"].s.decode()) in (first, second):
            number[src] = int(one.name.rpartition("_")[2]) - 1
    shift = {first: number[second] - number[first], second: number[first] - number[second]}
    renamed = {}
    for one in (one for piece in theirs for one in piece.node):
        src = one.name.split("/")[0]
        if src in shift and one.name != src and (sends or one.op != "_Send"):
            stem, _, at = one.name.rpartition("_")
            renamed[one.name] = one.name = f"{stem}_{int(at) + shift[src]}"
            renamed[f"{stem}_{at}"] = one.name
    for one in (one for piece in theirs for one in piece.node):
        for at, text in enumerate(one.input):
            control = "^" if text.startswith("^") else ""
            if text.removeprefix("^") in renamed:
                one.input[at] = control + renamed[text.removeprefix("^")]


@pytest.mark.parametrize(("sources", "alike"), [(8, False), (9, True), (20, True)])
def test_control_pairs_of_a_node_with_more_than_eight_edges_may_have_each_others_numbers(
    sources: int, alike: bool
) -> None:
    graph, devices = fan_in(sources)
    ours = cut(graph, devices)
    theirs = pieces(ours)
    exchange_fours(theirs, "s02", "s05")
    result = compare_items(ours, theirs, graph=graph)
    assert (result.agree == result.of) is alike
    assert result.raw < result.of


def crossed(base: int, source: str, device: str, reader: CutNode) -> list[CutNode]:
    """A control pair that a master makes for a source on another task and a reader, with numbers from `base` on."""
    ends = {"_src": AttrValue(s=source.encode()), "_dst": AttrValue(s=reader.name.encode())}
    attrs = {name: value.SerializeToString() for name, value in ends.items()}
    dummy = CutNode(f"{source}/ctrl_S{base}", "Const", device, (), frozenset((source,)), {})
    send = CutNode(f"{source}_S{base + 1}", "_Send", device, (dummy.name,), frozenset(), attrs)
    loop = frozenset(name for name in reader.controls if name.startswith("_cloop"))
    recv = CutNode(f"{source}_S{base + 2}", "_Recv", reader.device, (), loop, attrs)
    return [
        dummy,
        send,
        recv,
        CutNode(f"{source}_S{base + 3}", "Identity", reader.device, (recv.name,), frozenset(), {}),
    ]


@pytest.mark.parametrize(("elsewhere", "alike"), [(1, False), (2, True)])
def test_inputs_from_another_device_of_the_task_bring_edges_from_the_control_loop(elsewhere: int, alike: bool) -> None:
    task, other = "/job:worker/replica:0/task:0/device:GPU:", "/job:worker/replica:0/task:1/device:GPU:0"
    within = [CutNode(f"w{at}", "NoOp", f"{task}{at < elsewhere:d}", (), frozenset(), {}) for at in range(3)]
    forms = []
    for first, second in ((10, 14), (14, 10)):
        controls = {one.name for one in within} | {f"a_S{first + 3}", f"b_S{second + 3}", "_cloopmerge_S1"}
        reader = CutNode("next", "NextIteration", f"{task}0", (), frozenset(controls), {})
        pairs = [*crossed(first, "a", other, reader), *crossed(second, "b", other, reader)]
        forms.append({(one.name, one.controls) for one in canonical([reader, *within, *pairs], ())})
    assert (forms[0] == forms[1]) is alike


def test_numbers_that_no_order_explains_are_not_undone() -> None:
    graph, devices = fan_in(12)
    ours = cut(graph, devices)
    theirs = pieces(ours)
    exchange_fours(theirs, "s02", "s05", sends=False)
    result = compare_items(ours, theirs, graph=graph)
    assert result.agree < result.of


@pytest.mark.parametrize(("readers", "alike"), [(8, False), (9, True)])
def test_the_ids_of_a_widely_read_copys_edges_are_struck_out(readers: int, alike: bool) -> None:
    rows = Rows()
    rows.add("k", "Const", dtype=type_attr(), value=constant([], b"\0\0\0\0"))
    for number in range(readers):
        rows.add(f"r{number}", "Neg", ["k"], **typed("Neg", ()))
    graph = rows.built()
    gpu = TASKS.index["/job:worker/replica:0/task:0/device:GPU:0"]
    cpu = TASKS.index["/job:worker/replica:0/task:0/device:CPU:0"]
    ours = cut(graph, [0, gpu, *[cpu] * (readers - 2), 0], TASKS)
    theirs = pieces(ours)
    ends = [one for piece in theirs for one in piece.node if "tensor_name" in one.attr]
    assert len(ends) == 2
    for one in ends:
        one.attr["tensor_name"].s = b"edge_17_k/replicate/_1"
    result = compare_items(ours, theirs, graph=graph)
    assert (result.agree == result.of) is alike
    assert result.raw == result.of - 2


def test_the_ids_of_edges_that_tensorflow_made_in_no_order_are_struck_out() -> None:
    ours = cut(BRANCHES, SPREAD)
    theirs = pieces(ours)
    for one in (one for piece in theirs for one in piece.node if "tensor_name" in one.attr):
        if one.attr["_src"].s == b"a" and one.attr["_dst"].s == b"sum":
            one.attr["tensor_name"].s = b"edge_99_a"
    assert len(compare_items(ours, theirs, graph=BRANCHES).differences) == 2
    edges = zip(BRANCHES.edge_src.tolist(), BRANCHES.edge_dst.tolist(), strict=True)
    chance = flags([(BRANCHES.names[src], BRANCHES.names[dst]) == ("a", "sum") for src, dst in edges])
    rewritten = replace(BRANCHES, lowered=Lowered(BRANCHES, BRANCHES.creation, BRANCHES.order, chance))
    result = compare_items(ours, theirs, graph=rewritten)
    assert (result.differences, result.raw) == ((), result.of - 2)


@pytest.mark.parametrize(("count", "marked"), [(8, 0), (9, 9)])
def test_edges_made_in_the_order_of_a_crowded_nodes_edges_are_marked(count: int, marked: int) -> None:
    for way in ("readers", "waits"):
        editor = edited(build([], [], [], [], []))
        sources = [editor.add(f"s{number}", "NoOp") for number in range(count)]
        call = editor.add("call", "NoOp", (), sources if way == "waits" else ())
        if way == "readers":
            for number in range(count):
                editor.add(f"r{number}", "NoOp", (), (call,))
        done = editor.add("done", "NoOp", (), editor.controls_of(call))
        editor.redirect_readers(call, (), done)
        editor.remove(call)
        editor.add("other", "NoOp", (), sources)
        assert len(editor.by_chance) == marked


def test_a_task_can_be_left_out() -> None:
    ours = cut(BRANCHES, [0, 0, 1, 2, 0], TASKS)
    theirs = [piece for piece in pieces(ours) if "/job:ps" not in piece.node[0].device]
    assert compare_items(ours, theirs, graph=BRANCHES).differences
    result = compare_items(ours, theirs, graph=BRANCHES, tasks=["/job:worker/replica:0/task:0"])
    assert result.differences == ()
    assert result.of == sum(len(piece.node) for piece in theirs)


def test_a_loop_across_devices_is_compared_with_its_control_loop() -> None:
    rows = Rows()
    rows.add("x", "Const", **typed("Const", ()))
    loop(rows, start="x")
    graph = rows.built()
    ours = cut(graph, [int(name == "while/Neg") for name in graph.names])
    theirs = pieces(ours)
    assert compare_items(ours, theirs, graph=graph).differences == ()
    for piece in theirs:
        kept = [one for one in piece.node if not one.name.startswith("_cloop")]
        del piece.node[:]
        piece.node.extend(kept)
    found = {one.node: one.rule for one in compare_items(ours, theirs, graph=graph).differences}
    assert any(name.startswith("_cloop") and "control loop" in rule for name, rule in found.items())


def test_two_traces_are_compared_slice_by_slice() -> None:
    ours = cut(BRANCHES, SPREAD)
    costs = estimate(BRANCHES, CPUS)
    trace = simulate(ours, CPUS, costs)
    same = compare_items(trace, trace, graph=ours.graph)
    assert (same.agree, same.of, same.differences) == (len(trace.ops.node), len(trace.ops.node), ())
    end_ns = trace.tasks.end_ns.copy()
    end_ns[trace.ops.task[trace.ops.node == ours.graph.row("sum")]] += 1
    later = replace(trace, tasks=replace(trace.tasks, end_ns=ints(end_ns)))
    (one,) = compare_items(trace, later, graph=ours.graph).differences
    assert (one.node, one.ours != one.theirs) == ("sum", True)


def test_a_cut_of_garbage_is_all_different_and_raises_nothing() -> None:
    ours = cut(BRANCHES, SPREAD)
    garbage = type(graph_def(BRANCHES))()
    garbage.node.add(name="r", op="_Recv", input=["^nowhere"])
    garbage.node.add(name="s", op="_Send")
    garbage.node.add(name="a", op="Mul", input=["r", "gone:7", "^^", ""], attr={"T": type_attr()})
    result = compare_items(ours, [garbage], graph=BRANCHES)
    assert result.agree == 0


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"dtype": 1, "float_val": [1.5, 2.5]}, {"dtype": 1, "tensor_content": b"\0\0\xc0\x3f\0\0\x20\x40"}),
        ({"dtype": 3, "int_val": [-1, 7, 7]}, {"dtype": 3, "int_val": [-1, 7]}),
        ({"dtype": 6, "int_val": [-1]}, {"dtype": 6, "tensor_content": b"\xff"}),
        ({"dtype": 19, "half_val": [15360]}, {"dtype": 19, "tensor_content": b"\0\x3c"}),
        ({"dtype": 10, "bool_val": [True]}, {"dtype": 10, "tensor_content": b"\1"}),
        ({"dtype": 7, "string_val": [b"a" * 200]}, {"dtype": 7, "tensor_content": b"\xc8\1" + b"a" * 200}),
        ({"dtype": 9, "int64_val": [0]}, {"dtype": 9}),
        ({"dtype": 8, "scomplex_val": [1.5, 2.5]}, {"dtype": 8, "tensor_content": b"\0\0\xc0\x3f\0\0\x20\x40"}),
    ],
)
def test_a_tensor_may_be_written_in_several_ways(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    here, there = AttrValue(tensor=ours).tensor, AttrValue(tensor=theirs).tensor
    assert same_elements(here, there)
    there.tensor_content = b"\2" * 8
    assert not same_elements(here, there)
