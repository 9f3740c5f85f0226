"""The tricky cases of TensorFlow's placer, each with the rule that decides it and what comes of it.

The answers are worked out by hand from docs/tensorflow.md; test_rules.py holds ours against them without TensorFlow,
tests/oracle/test_refusals.py the real one's. On the cluster that has GPUs the session is at `chief`, which has no GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simulator.graph.graph import Graph
from simulator.graph.messages import AttrValue, FunctionDef
from tests.strategies import Rows, colocation, shapes_attr, type_attr, typed

INT32, STRING, COMPLEX64, INT64, RESOURCE, VARIANT = 3, 7, 8, 9, 20, 21
CPUS, GPUS = "4cpu", "chief=1,worker=1x2gpu"
C0, G0, G1, W0 = "chief:0/CPU:0", "worker:0/GPU:0", "worker:0/GPU:1", "worker:0/CPU:0"


@dataclass(frozen=True)
class Case:
    """A graph, where it is placed, and the devices of some nodes or what is refused and at which node."""

    section: str  # of docs/tensorflow.md
    write: Callable[[Rows], object]
    devices: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[str, str | None] | None = None  # kind (simulator/oracle/verification.py), node
    cluster: str = CPUS
    soft: bool = True
    library: tuple[FunctionDef, ...] = ()

    def graph(self) -> Graph:
        rows = Rows()
        self.write(rows)
        return rows.built(library={function.signature.name: function for function in self.library})


CASES: dict[str, Case] = {}


def case(
    section: str,
    *,
    cluster: str = CPUS,
    soft: bool | tuple[bool, bool] = (True, False),
    devices: Mapping[str, str] | None = None,
    refused: tuple[str, str | None] | None = None,
    library: tuple[Any, ...] = (),
) -> Callable[..., Any]:
    """Keep a case per mode of placement; its name is that of the function that writes the graph."""

    def keep(write: Callable[[Rows], object]) -> Callable[[Rows], object]:
        for mode in soft if isinstance(soft, tuple) else (soft,):
            name = f"{write.__name__}-{'soft' if mode else 'hard'}"
            CASES[name] = Case(section, write, devices or {}, refused, cluster, mode, library)
        return write

    return keep


# ---- what the graphs are made of -------------------------------------------------------------------------------------


def types(*numbers: int) -> Any:
    made = AttrValue()
    made.list.SetInParent()
    made.list.type.extend(numbers)
    return made


def fed(rows: Rows, name: str, dtype: int = 1, device: str = "") -> str:
    shape = AttrValue()
    shape.shape.unknown_rank = True
    return rows.add(name, "Placeholder", device=device, dtype=type_attr(dtype), shape=shape)


def op(rows: Rows, name: str, device: str = "", *near: str) -> str:
    """Something that runs anywhere and is no generator."""
    return rows.add(name, "NoOp", device=device, **({"_class": colocation(*near)} if near else {}))


def neg(rows: Rows, name: str, given: str, device: str = "", **attrs: Any) -> str:
    return rows.add(name, "Neg", [given], device=device, T=type_attr(), **attrs)


def handle(rows: Rows, name: str, device: str = "", **attrs: Any) -> str:
    shape = AttrValue()
    shape.shape.SetInParent()
    return rows.add(name, "VarHandleOp", device=device, dtype=type_attr(), shape=shape, **attrs)


def read(rows: Rows, name: str, given: str, device: str = "") -> str:
    return rows.add(name, "ReadVariableOp", [given], device=device, dtype=type_attr())


def variable(rows: Rows, name: str, device: str = "") -> str:
    return rows.add(name, "VariableV2", device=device, **typed("VariableV2"))


def assign(rows: Rows, name: str, given: str, value: str, device: str = "") -> str:
    return rows.add(name, "Assign", [given, value], device=device, T=type_attr())


def momentum(rows: Rows, name: str, one: str, other: str, value: str, device: str = "") -> str:
    given = [one, other, value, value, value]
    return rows.add(name, "ResourceApplyMomentum", given, device=device, T=type_attr())


def gpu_only(rows: Rows, name: str, device: str = "", **attrs: Any) -> str:
    fed(rows, f"{name}_in", COMPLEX64)
    fed(rows, f"{name}_len", INT32)
    given = [f"{name}_in", f"{name}_len", f"{name}_len"]
    return rows.add(name, "FFTND", given, device=device, Tcomplex=type_attr(COMPLEX64), **attrs)


def cpu_only(rows: Rows, name: str, device: str = "", **attrs: Any) -> str:
    fed(rows, f"{name}_in", STRING)
    return rows.add(name, "StringLength", [f"{name}_in"], device=device, unit=AttrValue(s=b"BYTE"), **attrs)


def strings(rows: Rows, name: str, dtype: int = STRING) -> str:
    """A list as a variant."""
    fed(rows, f"{name}_shape", INT32)
    fed(rows, f"{name}_size", INT32)
    attrs = {"element_dtype": type_attr(dtype), "shape_type": type_attr(INT32)}
    return rows.add(name, "TensorListReserve", [f"{name}_shape", f"{name}_size"], **attrs)


def passed(rows: Rows, name: str, given: str, *waits: Any, device: str = "", **attrs: Any) -> str:
    return rows.add(name, "Identity", [given, *waits], device=device, T=type_attr(VARIANT), **attrs)


def dataset(rows: Rows, name: str, device: str = "") -> str:
    fed(rows, f"{name}_at", INT64)
    attrs = {"output_types": types(INT64), "output_shapes": shapes_attr(())}
    return rows.add(name, "RangeDataset", [f"{name}_at"] * 3, device=device, **attrs)


def function(name: str, nodes: Sequence[tuple[str, str, Sequence[str], Mapping[str, Any], str]], result: str) -> Any:
    """Takes a resource `a`, hands back a resource."""
    made = FunctionDef()
    made.signature.name = name
    made.signature.is_stateful = True
    made.signature.input_arg.add(name="a", type=RESOURCE)
    made.signature.output_arg.add(name="r", type=RESOURCE)
    made.ret["r"] = result
    for inner, kind, given, attrs, device in nodes:
        written = made.node_def.add(name=inner, op=kind, input=given, device=device)
        for key, value in attrs.items():
            written.attr[key].CopyFrom(value)
    return made


def call(rows: Rows, name: str, called: Any, given: str, device: str = "") -> str:
    attr = AttrValue()
    attr.func.name = called
    attrs = {"f": attr, "Tin": types(RESOURCE), "Tout": types(RESOURCE)}
    return rows.add(name, "StatefulPartitionedCall", [given], device=device, **attrs)


# ---- 1. names --------------------------------------------------------------------------------------------------------


@case("1.2", devices={"any_type": "CPU:1", "last_wins": "CPU:2", "open": "CPU:0", "slash": "CPU:0", "stars": "CPU:3"})
def names_that_can_be_read(rows: Rows) -> None:
    op(rows, "any_type", "/device:*:1")
    op(rows, "last_wins", "/cpu:1/job:ps/job:localhost/cpu:2")
    op(rows, "open", "")
    op(rows, "slash", "/")
    op(rows, "stars", "/job:*/replica:*/task:*/device:CPU:3")


@case("1.2", soft=True, devices={"x": "CPU:0"})
def a_lower_case_type_is_a_type_that_no_device_has(rows: Rows) -> None:
    op(rows, "x", "/device:cpu:1")


@case("1.2", soft=False, refused=("no such device", "x"))
def a_lower_case_type_is_not_found(rows: Rows) -> None:
    op(rows, "x", "/device:cpu:1")


@case("1.2", refused=("malformed", "x"))
def a_short_name_needs_its_number(rows: Rows) -> None:
    op(rows, "x", "/cpu")


@case("1.2", refused=("malformed", "x"))
def a_job_has_no_hyphen(rows: Rows) -> None:
    op(rows, "x", "/job:my-job")


@case("1.2", refused=("malformed", "x"))
def nothing_may_follow_a_slash(rows: Rows) -> None:
    op(rows, "x", "/cpu:1/")


# ---- 2. conflicts under colocation -----------------------------------------------------------------------------------


@case("1.5", soft=True, devices={"x": "CPU:0", "y": "CPU:0"})
def two_numbers_give_up_the_number(rows: Rows) -> None:
    op(rows, "x", "/cpu:1")
    op(rows, "y", "/cpu:2", "x")


@case("1.5", soft=False, refused=("colocation", "y"))
def two_numbers_contradict(rows: Rows) -> None:
    op(rows, "x", "/cpu:1")
    op(rows, "y", "/cpu:2", "x")


@case("1.5", cluster=GPUS, soft=True, devices={"x": G0, "y": G0})
def two_types_give_up_type_and_number(rows: Rows) -> None:
    op(rows, "x", "/job:worker/cpu:0")
    op(rows, "y", "/gpu:1", "x")


@case("3.4", cluster=GPUS, soft=True, devices={"x": "worker:0/CPU:0", "y": C0})
def two_tasks_give_up_the_colocation(rows: Rows) -> None:
    op(rows, "x", "/job:worker/cpu:0")
    op(rows, "y", "/job:chief", "x")


@case("3.4", cluster=GPUS, soft=False, refused=("colocation", "y"))
def two_tasks_contradict(rows: Rows) -> None:
    op(rows, "x", "/job:worker/cpu:0")
    op(rows, "y", "/job:chief", "x")


# ---- 3. what soft placement never gives up; devices by name ----------------------------------------------------------


@case("3.5", refused=("no such device", "x"))
def a_job_is_never_given_up(rows: Rows) -> None:
    op(rows, "x", "/job:ps")


@case("3.5", cluster=GPUS, refused=("no such device", "x"))
def a_task_is_never_given_up(rows: Rows) -> None:
    op(rows, "x", "/job:worker/task:1/gpu:0")


@case("2.3", cluster="12cpu", soft=False, devices={"x": "CPU:2", "y": "CPU:0", "z": "CPU:10"})
def devices_are_ordered_as_text(rows: Rows) -> None:
    op(rows, "x", "/cpu:2")
    op(rows, "y", "/device:CPU:*")
    op(rows, "z", "/cpu:10")


# ---- 4. generators ---------------------------------------------------------------------------------------------------


@case("3.7", devices={"one": "CPU:2", "two": "CPU:0", "leaf": "CPU:0"})
def a_generator_goes_where_all_its_readers_are(rows: Rows) -> None:
    for name in ("one", "two", "leaf"):
        fed(rows, name)
    neg(rows, "one_a", "one", "/cpu:2")
    neg(rows, "one_b", "one", "/cpu:2")
    neg(rows, "two_a", "two", "/cpu:2")
    neg(rows, "two_b", "two", "/cpu:3")


@case("3.7", devices={"waited": "CPU:0", "both": "CPU:2", "unplaced": "CPU:0"})
def a_successor_by_control_counts_as_a_reader(rows: Rows) -> None:
    for name in ("waited", "both", "unplaced"):
        fed(rows, name)
        neg(rows, f"{name}_read", name, "/cpu:2")
    rows.add("away", "NoOp", ["^waited"], device="/cpu:1")
    rows.add("there", "NoOp", ["^both"], device="/cpu:2")
    rows.add("later", "Const", ["^unplaced"], device="/cpu:2", **typed("Const"))  # a generator, too: not yet placed


@case("3.7", devices={"k": "CPU:0"})
def readers_that_do_not_run_count(rows: Rows) -> None:
    rows.add("k", "Const", **typed("Const"))
    neg(rows, "unfetched", "k", "/cpu:2")
    neg(rows, "fetched", "k", "/cpu:1")  # the last node is the step's only target


@case("3.7", devices={"waits": "CPU:2", "tied": "CPU:1"})
def control_inputs_make_no_difference_and_colocation_does(rows: Rows) -> None:
    op(rows, "first", "/cpu:1")
    rows.add("waits", "Const", ["^first"], **typed("Const"))
    neg(rows, "read", "waits", "/cpu:2")
    rows.add("tied", "Const", _class=colocation("first"), **typed("Const"))
    neg(rows, "other", "tied", "/cpu:2")


# ---- 5. metadata and pass-through ------------------------------------------------------------------------------------


@case("3.7", devices={"b": "CPU:2", "of_b": "CPU:2", "of_a": "CPU:0", "asked": "CPU:1"})
def metadata_follows_what_is_placed(rows: Rows) -> None:
    fed(rows, "a")
    neg(rows, "b", "a", "/cpu:2")
    for name, given, device in (("of_b", "b", ""), ("of_a", "a", ""), ("asked", "b", "/cpu:1")):
        rows.add(name, "Shape", [given], device=device, T=type_attr(), out_type=type_attr(INT32))


@case("3.7", devices={"size": "CPU:2", "rank": "CPU:2", "shapes": "CPU:0"})
def sizes_and_ranks_follow_and_several_shapes_do_not(rows: Rows) -> None:
    fed(rows, "a")
    neg(rows, "b", "a", "/cpu:2")
    rows.add("size", "Size", ["b"], T=type_attr(), out_type=type_attr(INT32))
    rows.add("rank", "Rank", ["b"], T=type_attr())
    rows.add("shapes", "ShapeN", ["b"], T=type_attr(), out_type=type_attr(INT32), N=AttrValue(i=1))


@case("3.7", devices={"through": "CPU:2", "other_text": "CPU:0"})
def an_identity_between_equal_requests_passes_through(rows: Rows) -> None:
    fed(rows, "a")
    neg(rows, "b", "a", "/cpu:2")
    rows.add("through", "Identity", ["b"], T=type_attr())
    neg(rows, "c", "through", "/cpu:2")
    rows.add("other_text", "Identity", ["c"], T=type_attr())
    neg(rows, "d", "other_text", "/device:CPU:2")


@case("3.7", devices={"two_readers": "CPU:0", "waits": "CPU:0", "leaf": "CPU:0", "after_moved": "CPU:2"})
def an_identity_with_more_than_one_edge_or_none_after_it_does_not_pass_through(rows: Rows) -> None:
    fed(rows, "a")
    neg(rows, "b", "a", "/cpu:2")
    rows.add("two_readers", "Identity", ["b"], T=type_attr())
    neg(rows, "c", "two_readers", "/cpu:2")
    neg(rows, "d", "two_readers", "/cpu:2")
    rows.add("waits", "Identity", ["c", "^a"], T=type_attr())
    neg(rows, "e", "waits", "/cpu:2")
    rows.add("leaf", "Identity", ["e"], T=type_attr())
    neg(rows, "moved", "a", _class=colocation("b"))  # asks for nothing, as the sink behind the next one does
    rows.add("after_moved", "Identity", ["moved"], T=type_attr())


# ---- 6. references and resources -------------------------------------------------------------------------------------


@case("3.3", devices={"v": "CPU:1", "set": "CPU:1", "read": "CPU:3"})
def a_reader_by_reference_is_overruled(rows: Rows) -> None:
    variable(rows, "v", "/cpu:1")
    fed(rows, "x")
    assign(rows, "set", "v", "x", "/cpu:2")
    rows.add("read", "Identity", ["v"], device="/cpu:3", T=type_attr())  # by value: not tied


@case("3.3", devices={"h": "CPU:2", "first": "CPU:2", "second": "CPU:2"})
def the_first_reader_decides_for_an_open_handle(rows: Rows) -> None:
    handle(rows, "h")
    read(rows, "first", "h", "/cpu:2")
    read(rows, "second", "h", "/cpu:1")


@case("3.3", refused=("resource devices", "both"))
def two_places_of_variables_cannot_meet(rows: Rows) -> None:
    handle(rows, "h", "/cpu:1")
    handle(rows, "k", "/cpu:2")
    fed(rows, "x")
    momentum(rows, "both", "h", "k", "x")


@case("3.4", soft=True, devices={"h": "CPU:1", "k": "CPU:2"})
def colocated_variables_keep_their_places(rows: Rows) -> None:
    handle(rows, "h", "/cpu:1")
    handle(rows, "k", "/cpu:2", _class=colocation("h"))


@case("3.4", soft=False, refused=("colocation", "k"))
def colocated_variables_contradict(rows: Rows) -> None:
    handle(rows, "h", "/cpu:1")
    handle(rows, "k", "/cpu:2", _class=colocation("h"))


@case("3.3", soft=True, devices={"asked": "CPU:2", "h": "CPU:2", "both": "CPU:2"})
def a_variables_place_wins_over_a_request(rows: Rows) -> None:
    handle(rows, "h")
    read(rows, "asked", "h", "/cpu:1")
    handle(rows, "k", "/cpu:2")
    fed(rows, "x")
    momentum(rows, "both", "k", "h", "x")


@case("3.3", soft=False, refused=("reference", "both"))
def a_variables_place_contradicts_a_request(rows: Rows) -> None:
    handle(rows, "h")
    read(rows, "asked", "h", "/cpu:1")
    handle(rows, "k", "/cpu:2")
    fed(rows, "x")
    momentum(rows, "both", "k", "h", "x")


# ---- 7. `_class` -----------------------------------------------------------------------------------------------------


@case("3.4", devices={"a": "CPU:1", "b": "CPU:1", "c": "CPU:1", "d": "CPU:1", "e": "CPU:0", "f": "CPU:0"})
def keys_of_all_sorts(rows: Rows) -> None:
    op(rows, "a", "/cpu:1", "ghost")  # a name that no node has
    op(rows, "b", "", "ghost", "later")  # several, one of a node that comes later
    op(rows, "later")
    op(rows, "c", "", "later")
    op(rows, "d", "", "d", "c")  # itself
    rows.add("e", "NoOp", _class=AttrValue(s=b"loc:@a"))  # no list
    odd = AttrValue()
    odd.list.s.extend([b"a", b"log:@a"])
    rows.add("f", "NoOp", _class=odd)


@case("3.4", cluster=GPUS, soft=True, devices={"g": G1, "c": C0, "tied": G1})
def a_colocation_without_a_common_type_still_hands_on_the_request(rows: Rows) -> None:
    cpu_only(rows, "c", "/device:GPU:1")
    gpu_only(rows, "g", _class=colocation("c"))  # no type in common: given up, but the request stays
    op(rows, "tied", "", "g")


@case("3.4", cluster=GPUS, soft=False, refused=("colocation", "g"))
def a_colocation_without_a_common_type_is_refused(rows: Rows) -> None:
    cpu_only(rows, "c", "/device:GPU:1")
    gpu_only(rows, "g", _class=colocation("c"))


# ---- 8. kernels ------------------------------------------------------------------------------------------------------


@case("3.5", cluster=GPUS, soft=True, devices={"v": W0, "set": W0, "near": W0})
def a_member_without_a_gpu_kernel_moves_the_variable(rows: Rows) -> None:
    variable(rows, "v", "/job:worker/gpu:0")
    fed(rows, "x")
    assign(rows, "set", "v", "x")
    cpu_only(rows, "near", _class=colocation("v"))


@case("3.5", cluster=GPUS, soft=False, refused=("no kernel there", "v"))
def a_member_without_a_gpu_kernel_is_refused(rows: Rows) -> None:
    variable(rows, "v", "/job:worker/gpu:0")
    fed(rows, "x")
    assign(rows, "set", "v", "x")
    cpu_only(rows, "near", _class=colocation("v"))


@case("2.2", cluster=GPUS, devices={"length": C0, "kept": G0, "next": C0})
def kernels_decide_where_integers_and_iterators_go(rows: Rows) -> None:
    fed(rows, "i", INT64)
    fed(rows, "h", RESOURCE)
    cpu_only(rows, "length")
    rows.add("kept", "Identity", ["i"], T=type_attr(INT64))
    attrs = {"output_types": types(1), "output_shapes": shapes_attr(())}
    rows.add("next", "IteratorGetNext", ["h"], **attrs)  # its CPU kernel has the higher priority


@case("2.2", refused=("no kernel", "g"))
def a_kernel_for_a_type_that_is_not_there_does_not_count(rows: Rows) -> None:
    gpu_only(rows, "g", "/job:localhost")


@case("2.2", cluster="chief=1,worker=1", devices={"g": W0})
def another_process_may_have_a_kernel_that_is_not_known(rows: Rows) -> None:
    gpu_only(rows, "g", "/job:worker")


@case("2.2", cluster="chief=1,worker=1", refused=("no kernel", "g"))
def the_sessions_own_process_has_none(rows: Rows) -> None:
    gpu_only(rows, "g", "/job:chief")


@case("2.2", refused=("undeclared attribute", "top"))
def an_op_whose_kernels_ask_for_what_it_does_not_have(rows: Rows) -> None:
    fed(rows, "x")
    rows.add("top", "TopK", ["x"], k=AttrValue(i=1), T=type_attr())


@case("3.2", cluster=GPUS, devices={"made": G0, "kept": C0, "handle": C0, "floats": G0})
def lists_of_what_lives_on_the_host_stay_there(rows: Rows) -> None:
    op(rows, "wait")
    strings(rows, "made")
    passed(rows, "kept", "made", "^wait")
    strings(rows, "resources", RESOURCE)
    passed(rows, "handle", "resources", "^wait")
    strings(rows, "of_floats", 1)
    passed(rows, "floats", "of_floats", "^wait")


@case("3.2", cluster=GPUS, devices={"once": C0, "twice": C0, "stopped": G0})
def datasets_stay_on_the_host_as_far_as_their_type_is_handed_on(rows: Rows) -> None:
    op(rows, "wait")
    dataset(rows, "numbers")
    passed(rows, "once", "numbers", "^wait")
    passed(rows, "twice", "once", "^wait")
    rows.add("stopped", "StopGradient", ["twice", "^wait"], T=type_attr(VARIANT))


@case("3.2", cluster=GPUS, devices={"g": G0, "list": G0})
def a_group_that_has_no_cpu_kernel_keeps_its_strings_on_the_gpu(rows: Rows) -> None:
    strings(rows, "made")
    gpu_only(rows, "g")
    passed(rows, "list", "made", _class=colocation("g"))


# ---- 9. which node is reported ---------------------------------------------------------------------------------------


@case("3.2", refused=("malformed", "bad"))
def the_first_node_that_is_wrong_by_itself_comes_before_all_edges(rows: Rows) -> None:
    handle(rows, "h", "/cpu:1")
    handle(rows, "k", "/cpu:2")
    fed(rows, "x")
    momentum(rows, "both", "h", "k", "x")
    op(rows, "bad", "/job:a-b")
    rows.add("without", "TPUCompilationResult")


@case("3.2", soft=False, refused=("resource devices", "both"))
def an_edge_comes_before_colocation_and_devices(rows: Rows) -> None:
    op(rows, "lost", "/job:ps")
    op(rows, "a", "/cpu:1")
    op(rows, "b", "/cpu:2", "a")
    handle(rows, "h", "/cpu:1")
    handle(rows, "k", "/cpu:2")
    fed(rows, "x")
    momentum(rows, "both", "h", "k", "x")


@case("3.5", refused=("no such device", "late"))
def what_has_no_inputs_is_reported_last(rows: Rows) -> None:
    fed(rows, "early", device="/job:a")
    neg(rows, "late", "early", "/job:b")


@case("3.5", soft=False, refused=("no device for the group", "first"))
def a_member_that_did_not_ask_for_it_is_told_so(rows: Rows) -> None:
    op(rows, "first")
    op(rows, "second", "/gpu:0", "first")


# ---- 10. local before remote ----------------------------------------------------------------------------------------


@case("2.3", cluster="ps=2,worker=2", devices={"open": W0, "made": W0, "any_cpu": W0, "any_ps": "ps:0/CPU:0"})
def what_asks_for_no_task_goes_to_that_of_the_session(rows: Rows) -> None:
    op(rows, "open")  # "/job:ps" comes first as text, the session is at worker 0
    rows.add("made", "Const", **typed("Const"))
    op(rows, "any_cpu", "/cpu:0")
    op(rows, "any_ps", "/job:ps")


@case("2.3", cluster=GPUS, devices={"anywhere": G0, "on_cpus": C0})
def a_faster_type_elsewhere_comes_before_the_own_task(rows: Rows) -> None:
    op(rows, "anywhere")
    op(rows, "on_cpus", "/cpu:0")


# ---- functions that hand back resources ------------------------------------------------------------------------------

_R = {"T": type_attr(RESOURCE)}
_SAME = function("Same", [("same", "Identity", ["a"], _R, "")], "same:output:0")
_OWN = function(
    "Own",
    [("own", "VarHandleOp", [], {"dtype": type_attr(), "shape": AttrValue(shape={})}, "/cpu:2")],
    "own:resource:0",
)
_OUTER = function(
    "Outer",
    [
        (
            "inner",
            "StatefulPartitionedCall",
            ["a"],
            {"f": AttrValue(func={"name": "Same"}), "Tin": types(RESOURCE), "Tout": types(RESOURCE)},
            "",
        )
    ],
    "inner:output:0",
)


@case("3.6", library=(_SAME,), devices={"h": "CPU:1", "got": "CPU:0", "read": "CPU:1"})
def a_resource_that_a_call_hands_through_ties_what_is_around_it(rows: Rows) -> None:
    handle(rows, "h", "/cpu:1")
    call(rows, "got", "Same", "h")
    read(rows, "read", "got", "/cpu:3")


@case("3.6", library=(_OWN,), devices={"h": "CPU:1", "read": "CPU:2"})
def a_resource_that_is_made_in_a_call_ties_its_readers_to_its_place(rows: Rows) -> None:
    handle(rows, "h", "/cpu:1")
    call(rows, "got", "Own", "h")
    read(rows, "read", "got")


@case("3.6", library=(_SAME, _OUTER), devices={"h": "CPU:1", "read": "CPU:1"})
def calls_within_calls_are_looked_into(rows: Rows) -> None:
    handle(rows, "h", "/cpu:1")
    call(rows, "got", "Outer", "h")
    read(rows, "read", "got", "/cpu:3")


@case("3.6", refused=("missing function", None))
def a_call_of_nothing_is_refused(rows: Rows) -> None:
    handle(rows, "h")
    call(rows, "got", "Nowhere", "h")
