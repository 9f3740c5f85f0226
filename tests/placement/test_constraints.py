"""Groups and allowed devices, case by case as TensorFlow's placer treats them."""

from collections.abc import Sequence

import pytest

from simulator.cluster.description import load_cluster
from simulator.errors import GraphError, InfeasibleError
from simulator.graph.messages import AttrValue
from simulator.placer.colocation import merge_types
from simulator.placer.constraints import Constraints, constrain
from tests.strategies import Rows, colocation, type_attr, typed

STRING, RESOURCE, VARIANT = 7, 20, 21


def variable(rows: Rows, name: str, device: str = "") -> str:
    return rows.add(name, "VariableV2", device=device, **typed("VariableV2"))


def resource(rows: Rows, name: str, device: str = "") -> str:
    shape = AttrValue()
    shape.shape.SetInParent()
    return rows.add(name, "VarHandleOp", device=device, dtype=type_attr(), shape=shape)


def const(rows: Rows, name: str, device: str = "") -> str:
    return rows.add(name, "Const", device=device, **typed("Const"))


def assign(rows: Rows, name: str, target: str, value: str, device: str = "") -> str:
    return rows.add(name, "Assign", [target, value], device=device, T=type_attr())


def places(rows: Rows, cluster: str, *, soft: bool = True) -> tuple[dict[str, list[str]], list[list[str]], Constraints]:
    """Node name -> short names of its devices, preferred first; and the groups of more than one node."""
    graph, made = rows.built(), load_cluster(cluster)
    found = constrain(graph, made, soft=soft)
    allowed = {
        name: [made.devices[d].short.split("/")[1] for d in found.allowed[row]]
        for name, row in zip(graph.names, found.group.tolist(), strict=True)
    }
    groups = [[graph.names[node] for node in members] for members in found.members if len(members) > 1]
    return allowed, groups, found


# ---- what ties nodes together ---------------------------------------------------------------------------------------


def test_reference_inputs_tie_and_references_read_as_values_do_not() -> None:
    rows = Rows()
    variable(rows, "v", "/cpu:1")
    const(rows, "c")
    assign(rows, "set", "v", "c", "/cpu:2")
    rows.add("read", "Identity", ["v"], T=type_attr())
    allowed, groups, _ = places(rows, "3cpu", soft=False)
    assert groups == [["v", "set"]]
    assert allowed["set"] == ["CPU:1"]  # overruled, silently, even when placement is hard
    assert len(allowed["read"]) == 3


def test_resource_inputs_tie_and_the_first_user_decides_for_an_open_handle() -> None:
    rows = Rows()
    resource(rows, "h")
    const(rows, "c")
    rows.add("set", "AssignVariableOp", ["h", "c"], device="/cpu:2", dtype=type_attr())
    rows.add("read", "ReadVariableOp", ["h"], device="/cpu:1", dtype=type_attr())
    allowed, groups, _ = places(rows, "3cpu")
    assert groups == [["h", "set", "read"]]
    assert allowed["read"] == ["CPU:2"]


def test_exempt_ops_take_resources_from_anywhere() -> None:
    rows = Rows()
    resource(rows, "h", "/cpu:1")
    resource(rows, "k", "/cpu:2")
    types = AttrValue()
    types.list.type.extend([RESOURCE, RESOURCE])
    rows.add("both", "IdentityN", ["h", "k"], T=types)
    assert places(rows, "3cpu", soft=False)[1] == []


def test_two_resources_with_different_places_cannot_meet() -> None:
    rows = Rows()
    resource(rows, "h", "/cpu:1")
    resource(rows, "k", "/cpu:2")
    for name in ("lr", "grad", "momentum"):
        const(rows, name)
    rows.add("apply", "ResourceApplyMomentum", ["h", "k", "lr", "grad", "momentum"], T=type_attr())
    with pytest.raises(InfeasibleError, match="source node is 'k', and the destination node is 'apply'"):
        places(rows, "3cpu", soft=True)


def test_control_edges_do_not_tie() -> None:
    rows = Rows()
    variable(rows, "v", "/cpu:1")
    rows.add("after", "NoOp", ["^v"])
    assert places(rows, "2cpu")[1] == []


def test_a_dataset_stays_with_the_dataset_that_it_reads() -> None:
    rows = Rows()
    const(rows, "n")
    shapes, types = AttrValue(), AttrValue()
    shapes.list.shape.add()
    types.list.type.append(1)
    count = rows.add("count", "Const", dtype=type_attr(9))
    rows.add("source", "TensorSliceDataset", ["n"], device="/cpu:1", Toutput_types=types, output_shapes=shapes)
    rows.add("taken", "TakeDataset", ["source", count], output_types=types, output_shapes=shapes)
    allowed, groups, _ = places(rows, "2cpu")
    assert groups == [["source", "taken"]]
    assert allowed["taken"] == ["CPU:1"]


# ---- _class ---------------------------------------------------------------------------------------------------------


def test_colocated_nodes_share_the_request_of_one() -> None:
    rows = Rows()
    rows.add("a", "Task", device="/cpu:1")
    rows.add("b", "Task", ["a:0"], _class=colocation("a"))
    allowed, groups, _ = places(rows, "2cpu")
    assert groups == [["a", "b"]]
    assert allowed["b"] == ["CPU:1"]


def test_a_key_that_names_no_node_still_ties() -> None:
    rows = Rows()
    rows.add("a", "Task", _class=colocation("ghost"))
    rows.add("b", "Task", _class=colocation("other", "ghost"))
    rows.add("c", "Task", _class=colocation("other"))
    assert places(rows, "2cpu")[1] == [["a", "b", "c"]]


def test_a_node_may_name_one_that_comes_later() -> None:
    rows = Rows()
    rows.add("a", "Task", _class=colocation("z"))
    rows.add("z", "Task")
    assert places(rows, "2cpu")[1] == [["a", "z"]]


def test_entries_without_the_prefix_and_plain_strings_count_for_nothing() -> None:
    rows = Rows()
    odd = AttrValue()
    odd.list.s.extend([b"a", b"log:@a"])
    rows.add("a", "Task")
    rows.add("b", "Task", _class=odd)
    rows.add("c", "Task", _class=AttrValue(s=b"loc:@a"))
    assert places(rows, "2cpu")[1] == []


def test_soft_placement_satisfies_neither_of_two_numbers() -> None:
    rows = Rows()
    rows.add("a", "Task", device="/cpu:1")
    rows.add("b", "Task", device="/cpu:2", _class=colocation("a"))
    assert places(rows, "4cpu")[0]["a"] == ["CPU:0", "CPU:1", "CPU:2", "CPU:3"]
    with pytest.raises(InfeasibleError, match=r"Cannot colocate nodes 'b' and 'a': .*incompatible ids"):
        places(rows, "4cpu", soft=False)


def test_soft_placement_gives_up_a_colocation_across_tasks() -> None:
    rows = Rows()
    rows.add("a", "Task", device="/job:ps/task:0")
    rows.add("b", "Task", device="/job:worker/task:0", _class=colocation("a"))
    _, groups, found = places(rows, "ps=1,worker=1")
    assert groups == []
    assert found.dropped == ((1, "a"),)
    assert "gave up 1 colocation request" in found.notes[0]
    with pytest.raises(InfeasibleError, match="incompatible jobs"):
        places(rows, "ps=1,worker=1", soft=False)


def test_soft_placement_keeps_two_variables_where_they_were_put() -> None:
    rows = Rows()
    resource(rows, "h", "/cpu:1")
    resource(rows, "k", "/cpu:2")
    rows.attrs[-1]["_class"] = colocation("h")
    allowed, groups, found = places(rows, "3cpu")
    assert (allowed["h"], allowed["k"], groups) == (["CPU:1"], ["CPU:2"], [])
    assert found.dropped == ((1, "h"),)


# ---- which devices ----------------------------------------------------------------------------------------------


def test_devices_come_in_tensorflows_order_of_preference() -> None:
    rows = Rows()
    rows.add("a", "Task")
    made = load_cluster("ps=1x1gpu,worker=2x2gpu")
    assert made.client_task == "/job:worker/replica:0/task:0"
    order = [made.devices[d].short for d in constrain(rows.built(), made).allowed[0]]
    assert order == [
        "worker:0/GPU:0", "worker:0/GPU:1", "ps:0/GPU:0", "worker:1/GPU:0", "worker:1/GPU:1",
        "worker:0/CPU:0", "ps:0/CPU:0", "worker:1/CPU:0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cluster", "task"),
    [
        ("2gpu", "/job:localhost/replica:0/task:0"),
        ("ps=2,worker=2", "/job:worker/replica:0/task:0"),
        ("chief=1,ps=2,worker=2", "/job:chief/replica:0/task:0"),
        ("master=1,ps=2,worker=2", "/job:master/replica:0/task:0"),
        ("b=2,a=2", "/job:b/replica:0/task:0"),
    ],
)
def test_the_task_that_a_client_connects_to(cluster: str, task: str) -> None:
    assert load_cluster(cluster).client_task == task


def test_a_kernel_is_needed_for_every_member() -> None:
    rows = Rows()
    rows.add("text", "Const", dtype=type_attr(STRING))
    rows.add("near", "Task", _class=colocation("text"))
    rows.add("free", "Task")
    allowed, _, _ = places(rows, "1gpu")
    assert allowed == {"text": ["CPU:0"], "near": ["CPU:0"], "free": ["GPU:0", "CPU:0"]}


def test_soft_placement_gives_up_a_type_without_a_kernel_and_a_number_that_does_not_exist() -> None:
    rows = Rows()
    rows.add("text", "Const", device="/gpu:0", dtype=type_attr(STRING))
    rows.add("far", "Task", device="/gpu:7")
    allowed, _, _ = places(rows, "2gpu")
    assert allowed == {"text": ["CPU:0"], "far": ["GPU:0", "GPU:1", "CPU:0"]}
    with pytest.raises(InfeasibleError, match="operation far: it was explicitly assigned to /gpu:7") as caught:
        places(rows, "2gpu", soft=False)
    assert caught.value.node == "far"  # the constant has no inputs, so TensorFlow would place it last
    rows.requested[-1] = ""
    with pytest.raises(InfeasibleError, match="no supported kernel for GPU devices"):
        places(rows, "2gpu", soft=False)


def test_the_members_of_a_group_that_leave_least_are_named_first() -> None:
    rows = Rows()
    for number in range(9):
        rows.add(f"free{number}", "Task", _class=colocation("far"))
    rows.add("far", "Task", device="/gpu:7")
    with pytest.raises(InfeasibleError) as caught:
        places(rows, "2gpu", soft=False)
    first, second = str(caught.value).splitlines()[2:4]
    assert first == "  far ('Task'): no device of this cluster"
    assert second == "  free0 ('Task'): every device of 2gpu"


def test_a_partial_request_leaves_the_rest_open() -> None:
    rows = Rows()
    rows.add("a", "Task", device="/job:worker/device:GPU:*")
    rows.add("b", "Task", device="/task:1")
    made = load_cluster("ps=2,worker=2x1gpu")
    found = constrain(rows.built(), made, soft=False)
    assert [[made.devices[d].short for d in row] for row in found.allowed] == [
        ["worker:0/GPU:0", "worker:1/GPU:0"],
        ["worker:1/GPU:0", "ps:1/CPU:0", "worker:1/CPU:0"],
    ]


def test_lists_of_strings_stay_on_cpus_behind_the_op_that_makes_them() -> None:
    rows = Rows()
    size = const(rows, "size")
    made = {"element_dtype": type_attr(STRING), "shape_type": type_attr(3)}
    rows.add("reserve", "TensorListReserve", [size, size], **made)
    rows.add("pass", "Identity", ["reserve"], T=type_attr(VARIANT))
    rows.add("again", "Identity", ["pass"], T=type_attr(VARIANT))
    made["element_dtype"] = type_attr(1)
    rows.add("floats", "TensorListReserve", [size, size], **made)
    rows.add("on_gpu", "Identity", ["floats"], T=type_attr(VARIANT))
    allowed, _, _ = places(rows, "1gpu")
    assert allowed["reserve"] == ["GPU:0", "CPU:0"]
    assert allowed["pass"] == allowed["again"] == ["CPU:0"]
    assert allowed["on_gpu"] == ["GPU:0", "CPU:0"]


@pytest.mark.parametrize(
    ("target", "other", "merged"),
    [
        ([("GPU", 0), ("CPU", 0)], [("CPU", 0)], [("CPU", 0)]),
        ([("GPU", 0)], [("CPU", 0)], []),
        ([("CPU", 2), ("GPU", 1)], [("GPU", 0), ("CPU", 0)], [("CPU", 2), ("GPU", 1)]),
        ([("GPU", 0), ("CPU", 0)], [("CPU", 2), ("GPU", 1)], [("CPU", 2), ("GPU", 1)]),
        ([("CPU", 2), ("GPU", 1)], [("CPU", 9), ("GPU", 8)], [("CPU", 2), ("GPU", 1)]),
        ([("CPU", 2), ("GPU", 1)], [("GPU", 9), ("CPU", 8)], [("GPU", 0), ("CPU", 0)]),
    ],
)
def test_kernel_priorities_of_a_group(
    target: Sequence[tuple[str, int]], other: Sequence[tuple[str, int]], merged: Sequence[tuple[str, int]]
) -> None:
    assert merge_types(tuple(target), tuple(other)) == tuple(merged)


# ---- refusals -------------------------------------------------------------------------------------------------------


def test_a_malformed_device_names_its_node() -> None:
    rows = Rows()
    rows.add("fine", "Task")
    rows.add("broken", "Task", device="/job:my-job/task:0")
    with pytest.raises(GraphError, match=r"Malformed device specification .* \(node 'broken'\)") as caught:
        places(rows, "1gpu")
    assert caught.value.node == "broken"


def test_a_missing_job_is_named_and_a_cluster_proposed() -> None:
    rows = Rows()
    rows.add("a", "Task", device="/job:ps/task:1")
    rows.add("b", "Task", device="/job:worker/task:0/device:GPU:1")
    with pytest.raises(InfeasibleError, match=r"lacks the job 'ps'.*--cluster ps=2,worker=1x2gpu") as caught:
        places(rows, "4gpu")
    assert caught.value.members == ("a",)
    assert caught.value.allows == {"a": ()}


def test_a_missing_task_is_named() -> None:
    rows = Rows()
    rows.add("a", "Task", device="/job:ps/task:1")
    with pytest.raises(InfeasibleError, match=r"lacks the task '/job:ps/task:1'.*--cluster ps=2"):
        places(rows, "ps=1")


def test_a_replica_that_no_notation_can_name_gets_no_proposal() -> None:
    rows = Rows()
    rows.add("a", "Task", device="/job:ps/replica:3/task:1")
    with pytest.raises(InfeasibleError, match=r"lacks the task '/job:ps/replica:3/task:1'") as caught:
        places(rows, "ps=2")
    assert "--cluster" not in str(caught.value)


def test_a_type_that_no_device_has_gets_no_proposal() -> None:
    rows = Rows()
    rows.add("a", "Task", device="/device:cpu:0")  # not CPU: case matters
    with pytest.raises(InfeasibleError, match="assigned to /device:cpu:0 but available devices are") as caught:
        places(rows, "1gpu", soft=False)
    assert "--cluster" not in str(caught.value)
    assert places(rows, "1gpu")[0]["a"] == ["GPU:0", "CPU:0"]


def test_an_op_without_any_kernel_is_named() -> None:
    rows = Rows()
    rows.add("infeed", "TPUCompilationResult")
    with pytest.raises(InfeasibleError, match="No OpKernel was registered to support Op 'TPUCompilationResult'"):
        places(rows, "1gpu")


def test_a_refusal_lists_what_each_member_allows() -> None:
    rows = Rows()
    variable(rows, "v", "/gpu:0")
    const(rows, "c")
    assign(rows, "set", "v", "c")
    rows.add("text", "Const", dtype=type_attr(STRING), _class=colocation("v"))
    with pytest.raises(InfeasibleError) as caught:
        places(rows, "1gpu", soft=False)
    name = "/job:localhost/replica:0/task:0/device:"
    assert caught.value.allows["v"] == (f"{name}GPU:0",)
    assert caught.value.allows["text"] == (f"{name}CPU:0",)
    assert "text ('Const')" in str(caught.value)


def test_long_groups_are_cut_in_the_message_and_whole_in_the_error() -> None:
    rows = Rows()
    rows.add("n0", "Task", device="/device:GPU:7")
    for at in range(1, 30):
        rows.add(f"n{at}", "Task", _class=colocation("n0"))
    with pytest.raises(InfeasibleError, match="and 27 more") as caught:
        places(rows, "1gpu", soft=False)
    assert len(caught.value.members) == 30


def test_the_first_node_in_tensorflows_order_is_reported() -> None:
    rows = Rows()
    rows.add("late", "Task", ["early:0"], device="/job:b")
    rows.add("middle", "Task", ["early:0"], device="/job:c")
    rows.add("early", "Task", device="/job:a")
    with pytest.raises(InfeasibleError, match="for operation late") as caught:  # what has no inputs is placed last
        places(rows, "1gpu")
    assert caught.value.node == "late"


# ---- properties -----------------------------------------------------------------------------------------------------


def test_renaming_the_nodes_changes_nothing() -> None:
    rows = Rows()
    variable(rows, "v", "/cpu:1")
    const(rows, "c")
    assign(rows, "set", "v", "c")
    rows.add("near", "Task", _class=colocation("set"))
    before = places(rows, "3cpu")[2]
    named = {"v": "z", "c": "y", "set": "x", "near": "a"}
    other = Rows()
    for row, name in enumerate(rows.names):
        attrs = dict(rows.attrs[row])
        if "_class" in attrs:
            attrs["_class"] = colocation(named["set"])
        other.add(named[name], rows.ops[row], [named[i] for i in rows.inputs[row]], device=rows.requested[row], **attrs)
    after = places(other, "3cpu")[2]
    assert (before.group.tolist(), before.allowed) == (after.group.tolist(), after.allowed)
