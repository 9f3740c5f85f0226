from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import GraphError
from simulator.graph.graph import Graph
from simulator.graph.inlining import calls as expansion
from simulator.graph.inlining.expanding import inline
from simulator.graph.messages import AttrValue
from simulator.limits import raised
from tests.graph.inlining.functional import (
    BINARY,
    BOOL,
    FLOAT,
    PLACEHOLDER,
    RESULT,
    T,
    Written,
    by_calling,
    by_running,
    call,
    calls,
    conditional,
    function,
    graph,
)
from tests.strategies import type_attr, types_attr

X: Written = ("x", "Placeholder", [], PLACEHOLDER)
P: Written = ("p", "Placeholder", [], {"dtype": type_attr(BOOL)})
DOUBLE = function("double", ["a"], [("sum", "AddV2", ["a", "a"], T)], ["sum:z:0"])


def rows(made: Graph) -> list[tuple[str, ...]]:
    return [(node.name, node.op, *node.inputs) for node in made.nodes()]


def text(value: str) -> Any:
    return AttrValue(s=value.encode())


def test_a_graph_without_calls_is_returned_as_it_is() -> None:
    made = graph([X])
    assert inline(made) is made


def test_a_call_becomes_the_body_between_identities() -> None:
    made = inline(graph([X, ("c", "PartitionedCall", ["x"], call("double", 1)), ("y", "Neg", ["c"], T)], [DOUBLE]))
    assert rows(made) == [
        ("x", "Placeholder"),
        ("y", "Neg", "Func/c/output/_1"),
        ("Func/c/input/_0", "Identity", "x"),
        ("c/sum", "AddV2", "Func/c/input/_0", "Func/c/input/_0"),
        ("Func/c/output/_1", "Identity", "c/sum"),
        ("Func/c/output_control_node/_2", "NoOp"),
        ("c", "IdentityN", "Func/c/output/_1", "^Func/c/output_control_node/_2"),
    ]
    assert made.notes == ("Expanded 1 function call into its body.",)
    assert not made.library
    assert made.tensor_dtype.tolist() == [FLOAT] * len(made.tensor_dtype)


@pytest.mark.parametrize(("compiled", "said"), [(1, "1 function call"), (2, "2 function calls")])
def test_calls_that_xla_compiles_are_counted(compiled: int, said: str) -> None:
    """Their ops stay apart here, so the step is longer than what XLA makes of it."""
    marked = [call("double", 1) | {"_XlaMustCompile": AttrValue(b=at < compiled)} for at in range(3)]
    made = inline(graph([X, *((f"c{at}", "PartitionedCall", ["x"], one) for at, one in enumerate(marked))], [DOUBLE]))
    assert made.notes[0] == "Expanded 3 function calls into their bodies."
    assert [note.partition(" and ")[0] for note in made.notes[1:]] == [f"XLA would compile {said}"]


def test_control_edges_go_round_the_body() -> None:
    body = function("f", ["a"], [("k", "Const", [], PLACEHOLDER), ("e", "NoOp", ["^k"], {})], ["a"], effects=["e"])
    made = inline(
        graph(
            [
                X,
                ("before", "NoOp", [], {}),
                ("c", "PartitionedCall", ["x", "^before"], call("f", 1)),
                ("after", "NoOp", ["^c"], {}),
            ],
            [body],
        )
    )
    inputs = {node.name: node.inputs for node in made.nodes()}
    assert inputs["Func/c/input_control_node/_0"] == ("^before",)
    assert inputs["Func/c/input/_1"] == ("x", "^Func/c/input_control_node/_0")
    assert inputs["c/k"] == ("^Func/c/input_control_node/_0",)
    assert inputs["c/e"] == ("^c/k",)
    assert inputs["Func/c/output_control_node/_3"] == ("^c/e",)
    assert inputs["after"] == ("^Func/c/output_control_node/_3",)


def test_a_conditional_is_lowered_and_counted_once() -> None:
    made = inline(graph([P, X, ("c", "StatelessIf", ["p", "x"], conditional("double", "double", 1))], [DOUBLE]))
    assert made.notes == ("Expanded 1 conditional into its body.",)
    assert "cond/then" not in " ".join(made.names)
    assert {"c/switch_pred/_2", "c/pivot_f/_3", "c/pivot_t/_4", "c/x/_5", "c/output/_6"} <= set(made.names)
    assert made.node("c/output/_6").inputs == ("Func/c/then/_0/output/_10", "Func/c/else/_1/output/_14")
    assert made.node("c").op == "IdentityN"


def a_loop(controls: Sequence[str] = ()) -> Graph:
    attrs = {
        "T": types_attr(FLOAT),
        "cond": calls("less"),
        "body": calls("double"),
        "parallel_iterations": AttrValue(i=7),
    }
    less = function("less", ["a"], [("less", "Less", ["a", "a"], T)], [])
    less.signature.output_arg.add(name="go", type=BOOL)
    less.ret["go"] = "less:z:0"
    return graph([X, ("before", "NoOp", [], {}), ("w", "While", ["x", *controls], attrs)], [DOUBLE, less])


def test_a_loop_is_a_frame() -> None:
    made = inline(a_loop())
    by_op = {node.op: node for node in made.nodes() if node.op != "Identity"}
    assert by_op["Enter"].attrs["frame_name"].s == b"w"
    assert by_op["Enter"].attrs["parallel_iterations"].i == 7
    assert by_op["Merge"].inputs == (by_op["Enter"].name, by_op["NextIteration"].name)
    assert by_op["Switch"].inputs == (by_op["Merge"].name, by_op["LoopCond"].name)
    assert by_op["Exit"].inputs == (by_op["Switch"].name,)
    assert by_op["IdentityN"].inputs[0]
    assert made.node("w").inputs == (by_op["Exit"].name,)
    assert made.edge_back.sum() == 1


def test_what_a_loop_waits_for_all_its_enters_wait_for() -> None:
    made = inline(a_loop(["^before"]))
    gate = next(node for node in made.nodes() if "LoopControlInputs" in node.name)
    assert gate.inputs == ("^before",)
    assert [node.inputs[-1] for node in made.nodes() if node.op == "Enter"] == ["^" + gate.name]


def test_arguments_may_be_lists_and_references_to_whole_lists() -> None:
    body = function("f", [], [("both", "IdentityN", ["many"], {"T": types_attr(FLOAT, FLOAT)})], [])
    body.signature.attr.add(name="N", type="int")
    body.signature.attr.add(name="T", type="type")
    body.signature.input_arg.add(name="many", type_attr="T", number_attr="N")
    body.signature.output_arg.add(name="all", type_attr="T", number_attr="N")
    body.ret["all"] = "both:output"
    body.node_def.add(name="one", op="Neg", input=["many:1"]).attr["T"].placeholder = "T"
    attrs = {"N": AttrValue(i=2), "T": type_attr(FLOAT)}
    made = inline(graph([X, ("y", "Placeholder", [], PLACEHOLDER), ("c", "f", ["x", "y"], attrs)], [body]))
    assert made.node("c/both").inputs == ("Func/c/input/_0", "Func/c/input/_1")
    assert made.node("c/one").inputs == ("Func/c/input/_1",)
    assert made.node("c/one").attrs["T"].type == FLOAT
    assert made.node("Func/c/output/_3").inputs == ("c/both:1",)


def test_devices() -> None:
    nodes = [("own", "Neg", ["a"], T, "/gpu:1"), ("open", "Neg", ["own:y:0"], T)]
    body = function("f", ["a"], nodes, ["open:y:0"])
    source: Written = ("x", "Placeholder", [], PLACEHOLDER, "/cpu:3")
    many = inline(graph([source, ("c", "PartitionedCall", ["x"], call("f", 1), "/job:ps/cpu:0")], [body]))
    assert dict(zip(many.names, many.requested, strict=True)) == {
        "x": "/cpu:3",
        "Func/c/input/_0": "/cpu:3",
        "c/own": "/job:ps/device:GPU:1",
        "c/open": "/job:ps/cpu:0",
        "Func/c/output/_1": "",
        "Func/c/output_control_node/_2": "/job:ps/cpu:0",
        "c": "/job:ps/cpu:0",
    }
    assert many.node("Func/c/input/_0").attrs["_class"].list.s == [b"loc:@x"]
    one = inline(graph([source, ("c", "f", ["x"], {}, "/job:ps/cpu:0")], [body]))
    assert set(one.requested[1:]) == {"/job:ps/cpu:0"}


def test_colocation_and_frames_in_a_body_speak_of_the_copies() -> None:
    beside = AttrValue()
    beside.list.s.extend([b"loc:@a", b"loc:@n", b"loc:@elsewhere"])
    frame = {**T, "frame_name": text("loop")}
    nodes = [("n", "Neg", ["a"], {**T, "_class": beside}), ("e", "Enter", ["n:y:0"], frame)]
    made = inline(graph([X, ("c", "PartitionedCall", ["x"], call("f", 1))], [function("f", ["a"], nodes, ["n:y:0"])]))
    assert made.node("c/n").attrs["_class"].list.s == [b"loc:@Func/c/input/_0", b"loc:@c/n", b"loc:@elsewhere"]
    assert made.node("c/e").attrs["frame_name"].s == b"c/loop"
    assert nodes[0][3]["_class"].list.s[0] == b"loc:@a"  # the function itself is untouched


def test_names_that_are_taken_are_passed_over() -> None:
    taken: list[Written] = [("c/sum", "NoOp", [], {}), ("Func/c/input/_0", "NoOp", [], {})]
    made = inline(graph([X, *taken, ("c", "PartitionedCall", ["x"], call("double", 1))], [DOUBLE]))
    assert made.node("c/sum_1").inputs == ("Func/c/input/_1", "Func/c/input/_1")


def test_shapes_are_carried_along() -> None:
    shape = AttrValue()
    shape.list.shape.add().dim.add(size=3)
    source: Written = ("x", "Placeholder", [], {**PLACEHOLDER, "_output_shapes": shape})
    made = inline(graph([P, source, ("c", "StatelessIf", ["p", "x"], conditional("double", "double", 1))], [DOUBLE]))
    known = {made.tensor_name(at): shape for at, shape in enumerate(made.tensor_shape)}
    assert known["c/x/_5:0"] == known["c/x/_5:1"] == known["Func/c/then/_0/input/_9:0"] == (3,)
    assert known["c/switch_pred/_2:0"] == known["c/branch_executed/_7:1"] == ()
    assert known["c/then/_0/sum:0"] is None  # nobody says


def test_functions_of_other_ops_stay_with_what_they_need() -> None:
    outer = function("outer", ["a"], [("c", "PartitionedCall", ["a"], call("double", 1))], ["c:output:0"])
    unused = function("unused", ["a"], [], ["a"])
    gradient = {"f": calls("outer"), "Tin": types_attr(FLOAT, FLOAT), "Tout": types_attr(FLOAT)}
    nodes = [X, ("g", "SymbolicGradient", ["x", "x"], gradient), ("c", "PartitionedCall", ["x"], call("unused", 1))]
    made = inline(graph(nodes, [outer, DOUBLE, unused]))
    assert list(made.library) == ["outer", "double"]
    assert made.node("g").op == "SymbolicGradient"


def test_a_call_of_a_missing_function_stays_and_is_counted() -> None:
    made = inline(graph([X, ("c", "PartitionedCall", ["x"], call("gone", 1)), ("n", "StatelessIf", ["x"], {})]))
    assert made.node("c").op == "PartitionedCall"
    assert made.notes == ("2 calls stay as they are: their functions are not in the graph's library.",)


@pytest.mark.parametrize("op", ["PartitionedCall", "StatelessIf"])
def test_recursion_is_refused_with_the_functions_name(op: str) -> None:
    attrs = call("f", 1) if op == "PartitionedCall" else conditional("double", "f", 1)
    again = [("again", op, ["a"] if op == "PartitionedCall" else ["a", "a"], attrs)]
    made = graph(
        [X, ("c", "PartitionedCall", ["x"], call("f", 1))], [function("f", ["a"], again, ["again:output:0"]), DOUBLE]
    )
    with pytest.raises(GraphError, match="'f' calls itself"):
        inline(made)


def doubling(levels: int) -> Graph:
    """f0 calls f1 twice, f1 calls f2 twice, ...: 2**levels bodies."""
    made = [function(f"f{levels}", ["a"], [], ["a"])]
    for level in range(levels):
        nodes = [(name, "PartitionedCall", ["a"], call(f"f{level + 1}", 1)) for name in ("l", "r")]
        made.append(function(f"f{level}", ["a"], nodes, ["l:output:0"]))
    return graph([X, ("c", "PartitionedCall", ["x"], call("f0", 1))], made)


def test_growth_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion, "FREE_NODES", 5000)
    made = doubling(40)
    assert 100 * (len(made) + sum(len(one.node_def) for one in made.library.values())) == 8200
    with pytest.raises(GraphError, match=r"8,200 nodes; keep the calls \(--keep-calls\), or --limit growth=N"):
        inline(made)
    with raised({"nodes": 5000}), pytest.raises(GraphError, match=r"more than 5,000 nodes.*--limit nodes=N"):
        inline(made)


def test_limits_of_growth_can_be_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion, "FREE_NODES", 50)
    made = doubling(8)
    with pytest.raises(GraphError, match=r"--limit growth=N takes more"):
        inline(made)
    with raised({"growth": 10_000}):
        assert len(inline(made)) > 2**8


def test_depth_is_bounded() -> None:
    deep = [
        function(f"f{at}", ["a"], [("c", "PartitionedCall", ["a"], call(f"f{at + 1}", 1))], ["c:output:0"])
        for at in range(200)
    ]
    made = graph([X, ("c", "PartitionedCall", ["x"], call("f0", 1))], [*deep, function("f200", ["a"], [], ["a"])])
    with pytest.raises(GraphError, match=r"100 function calls lie within each other.*--limit calls=N"):
        inline(made)
    with raised({"calls": 300}):
        assert len(inline(made)) > 200


@pytest.mark.parametrize(
    ("nodes", "results", "message"),
    [
        ([("n", "Neg", ["gone"], T)], ["n:y:0"], "'n' reads 'gone', which is not in the function"),
        ([("n", "Neg", ["a"], T)], ["n:nothing:0"], "'r0' reads 'n:nothing:0'"),
        ([("n", "Neg", ["a"], T)], ["n:y:1"], "'r0' reads 'n:y:1'"),
        ([("n", "Neg", ["a:99999999999999999999"], T)], ["n:y:0"], "which is not in the function"),
        ([("n", "Neg", ["a"], {"T": AttrValue(placeholder="T")})], ["n:y:0"], "does not give the attribute 'T'"),
        ([("n", "Neg", ["m:y:0"], T), ("m", "Neg", ["n:y:0"], T)], ["n:y:0"], "a cycle of 2 nodes"),
        ([("n", "Custom", ["a"], {})], ["n:y:5"], "an output that the node does not have"),
    ],
)
def test_malformed_bodies_are_refused(nodes: Sequence[Written], results: Sequence[str], message: str) -> None:
    made = graph([X, ("c", "PartitionedCall", ["x"], call("f", 1))], [function("f", ["a"], nodes, results)])
    with pytest.raises(GraphError, match=message):
        inline(made)


def test_calls_that_do_not_fit_are_refused() -> None:
    with pytest.raises(GraphError, match="hands over 2 tensors, but its function 'double' takes 1"):
        inline(graph([X, ("c", "PartitionedCall", ["x", "x"], call("double", 2))], [DOUBLE]))
    two = ("c", "PartitionedCall", ["x"], call("double", 1, results=2))
    with pytest.raises(GraphError, match="'c' has no output 1"):
        inline(graph([X, two, ("y", "Neg", ["c:1"], T)], [DOUBLE]))


@st.composite
def programs(draw: st.DrawFn) -> tuple[Graph, dict[str, int]]:
    """A graph of arithmetic, calls and conditionals over functions of the same kind, and what is fed."""
    functions: list[Any] = []
    for level in range(draw(st.integers(1, 4))):
        nodes = draw(bodies(["a", "b"], functions))
        last = f"{nodes[-1][0]}:{RESULT if nodes[-1][1] in BINARY else 'output'}:0"
        functions.append(function(f"f{level}", ["a", "b"], nodes, [last, "a"]))
    nodes = draw(bodies(["x", "y"], functions, inside=False))
    fed = {"x": draw(st.integers(-3, 3)), "y": draw(st.integers(-3, 3)), "p": draw(st.booleans())}
    given = [X, ("y", "Placeholder", [], PLACEHOLDER), P]
    return graph([*given, *nodes], functions), fed


@st.composite
def bodies(
    draw: st.DrawFn, arguments: Sequence[str], functions: Sequence[Any], *, inside: bool = True
) -> list[Written]:
    pool = list(arguments)
    nodes: list[Written] = []
    for at in range(draw(st.integers(1, 5))):
        name, left, right = f"n{at}", draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        kinds = sorted(BINARY) + (["PartitionedCall", "StatelessIf"] if functions else [])
        op = draw(st.sampled_from(kinds if not inside else [kind for kind in kinds if kind != "StatelessIf"]))
        target = draw(st.sampled_from(functions)).signature.name if functions else ""
        if op in BINARY:
            nodes.append((name, op, [left, right], T))
            made = [RESULT]
        elif op == "PartitionedCall":
            nodes.append((name, op, [left, right], call(target, 2, results=2)))
            made = ["output"] * 2
        else:
            other = draw(st.sampled_from(functions)).signature.name
            nodes.append((name, op, ["p", left, right], conditional(target, other, 2, results=2)))
            made = ["output"] * 2
        pool += [f"{name}:{argument}:{port}" if inside else f"{name}:{port}" for port, argument in enumerate(made)]
    return nodes


@given(programs())
def test_the_flat_graph_means_the_same(program: tuple[Graph, Mapping[str, int]]) -> None:
    made, fed = program
    called, ran = by_calling(made, fed), by_running(inline(made), fed)
    assert {name: ran[name] for name in called} == called
