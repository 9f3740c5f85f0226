"""Cases of the partitioner: pairs, names, edge ids, constants, memory, references, the client, the log.

rules.py tells what they are.
"""

from __future__ import annotations

from simulator.graph.messages import AttrValue
from tests.partitioning.worked import (
    GPUS,
    MASTER,
    STRING,
    TASKS,
    WORKERS,
    Case,
    add,
    cast,
    const,
    keeping,
    mul,
    neg,
    op,
    reshape,
    shape,
    switch,
)
from tests.strategies import INT32, Rows, type_attr, typed

CASES: dict[str, Case] = {}
case = keeping(CASES)


# ---- 11. who shares a pair -------------------------------------------------------------------------------------------


@case(
    "5.2",
    """
    CPU:0 a = Const()
    CPU:0 a/_0 = _Send(a) edge_3_a
    CPU:1 a/_1 = _Recv() edge_3_a
    CPU:1 b = Neg(a/_1)
    CPU:1 c = Mul(a/_1, a/_1)
    CPU:0 a/_2 = _Send(a) edge_6_a
    CPU:2 a/_3 = _Recv() edge_6_a
    CPU:2 d = Neg(a/_3)
    """,
)
def readers_on_one_device_share_a_recv(rows: Rows) -> None:
    const(rows, "CPU:0", "a")
    neg(rows, "CPU:1", "b", "a")
    mul(rows, "CPU:1", "c", "a", "a")
    neg(rows, "CPU:2", "d", "a")


@case(
    "5.2",
    """
    CPU:0 k = Const()
    CPU:0 u = Unpack(k)
    CPU:0 u/_0 = _Send(u) edge_4_u
    CPU:1 u/_1 = _Recv() edge_4_u
    CPU:1 b = Neg(u/_1)
    CPU:0 u/_2 = _Send(u:16) edge_5_u
    CPU:1 u/_3 = _Recv() edge_5_u
    CPU:1 c = Mul(u/_3, u/_1)
    """,
)
def each_output_crosses_by_itself(rows: Rows) -> None:
    const(rows, "CPU:0", "k")
    add(rows, "CPU:0", "u", "Unpack", "k", T=type_attr(), num=AttrValue(i=17))
    neg(rows, "CPU:1", "b", "u")
    mul(rows, "CPU:1", "c", "u:16", "u")


@case(
    "5.2",
    """
    CPU:0 a = Const()
    CPU:0 a/_0 = _Send(a) edge_3_a
    CPU:1 a/_1 = _Recv() edge_3_a
    CPU:0 a/ctrl/_2 = Const(^a)
    CPU:0 a/_3 = _Send(a/ctrl/_2) edge_4_a
    CPU:1 a/_4 = _Recv() edge_4_a
    CPU:1 a/_5 = Identity(a/_4)
    CPU:1 b = Neg(a/_1, ^a/_5)
    """,
)
def data_and_control_of_one_node_cross_apart(rows: Rows) -> None:
    const(rows, "CPU:0", "a")
    neg(rows, "CPU:1", "b", "a", "^a")


@case(
    "5.2",
    """
    CPU:0 a = Const()
    CPU:0 a/ctrl/_0 = Const(^a)
    CPU:0 a/_1 = _Send(a/ctrl/_0) edge_3_a
    CPU:1 a/_2 = _Recv() edge_3_a
    CPU:1 a/_3 = Identity(a/_2)
    CPU:1 b = NoOp(^a/_3)
    CPU:1 c = NoOp(^a/_3)
    """,
)
def nodes_that_wait_on_one_device_share_a_pair(rows: Rows) -> None:
    const(rows, "CPU:0", "a")
    op(rows, "CPU:1", "b", "^a", "^a")
    op(rows, "CPU:1", "c", "^a")


# ---- 12. names, 18. two levels ---------------------------------------------------------------------------------------


@case(
    "5.3",
    """
    chief:0/CPU:0 a = Const()
    chief:0/CPU:0 a_S0 = _Send(a) edge_3_a
    ps:0/CPU:0 a_S1 = _Recv() edge_3_a
    chief:0/CPU:0 a/ctrl_S2 = Const(^a)
    chief:0/CPU:0 a_S3 = _Send(a/ctrl_S2) edge_4_a
    ps:0/CPU:0 a_S4 = _Recv() edge_4_a
    ps:0/CPU:0 a_S5 = Identity(a_S4)
    ps:0/CPU:0 b = Neg(a_S1, ^a_S5)
    """,
    cluster=TASKS,
    by=MASTER,
)
def a_master_names_what_it_makes_after_the_source(rows: Rows) -> None:
    const(rows, "chief:0/CPU:0", "a")
    neg(rows, "ps:0/CPU:0", "b", "a", "^a")


@case(
    "5.2",
    """
    ps:0/CPU:0 a = Const()
    ps:0/CPU:0 a_S0 = _Send(a) edge_3_a
    worker:0/CPU:1 a_S1 = _Recv() edge_3_a
    worker:0/CPU:1 b = Neg(a_S1)
    worker:0/CPU:0 c = Neg(a_S1, ^b)
    """,
    name="a_task_is_sent_a_tensor_once_to_the_device_that_reads_it_first",
    cluster=TASKS,
    by=MASTER,
)
@case(
    "5.4",
    """
    ps:0/CPU:0 a = Const()
    ps:0/CPU:0 a_S0 = _Send(a) edge_3_a
    worker:0/CPU:1 a_S1 = _Recv() edge_3_a
    worker:0/CPU:1 b = Neg(a_S1)
    worker:0/CPU:1 a_S1_G0 = _Send(a_S1) edge_2_a_S1
    worker:0/CPU:0 a_S1_G1 = _Recv() edge_2_a_S1
    worker:0/CPU:1 b/ctrl_G2 = Const(^b)
    worker:0/CPU:1 b_G3 = _Send(b/ctrl_G2) edge_3_b
    worker:0/CPU:0 b_G4 = _Recv() edge_3_b
    worker:0/CPU:0 b_G5 = Identity(b_G4)
    worker:0/CPU:0 c = Neg(a_S1_G1, ^b_G5)
    """,
    name="a_worker_hands_on_what_its_task_was_sent_and_counts_edges_from_one",
    cluster=TASKS,
    by=WORKERS,
)
def one_task_reads_on_two_devices(rows: Rows) -> None:
    const(rows, "ps:0/CPU:0", "a")
    neg(rows, "worker:0/CPU:1", "b", "a")
    neg(rows, "worker:0/CPU:0", "c", "a", "^b")


# ---- 13. edge ids ----------------------------------------------------------------------------------------------------


@case(
    "5.4",
    """
    CPU:0 k1 = Const()
    CPU:1 k2/replicate/_0 = Const()
    CPU:2 k2/replicate/_1 = Const()
    CPU:0 k1/_0 = _Send(k1) edge_3_k1
    CPU:1 k1/_1 = _Recv() edge_3_k1
    CPU:1 a = Mul(k1/_1, k2/replicate/_0)
    CPU:1 a/_2 = _Send(a) edge_4_a
    CPU:2 a/_3 = _Recv() edge_4_a
    CPU:2 b = Mul(a/_3, k2/replicate/_1)
    CPU:1 a/_4 = _Send(a) edge_5_a
    CPU:3 a/_5 = _Recv() edge_5_a
    CPU:2 b/_6 = _Send(b) edge_6_b
    CPU:3 b/_7 = _Recv() edge_6_b
    CPU:0 k1/ctrl/_8 = Const(^k1)
    CPU:0 k1/_9 = _Send(k1/ctrl/_8) edge_7_k1
    CPU:3 k1/_10 = _Recv() edge_7_k1
    CPU:3 k1/_11 = Identity(k1/_10)
    CPU:3 c = Mul(a/_5, b/_7, ^k1/_11)
    CPU:3 c/_12 = _Send(c) edge_10_c
    CPU:0 c/_13 = _Recv() edge_10_c
    CPU:0 _retval_c_0_0 = _Retval(c/_13)
    """,
    fetches=("c:0",),
)
def edges_are_counted_from_three_without_those_of_copied_constants(rows: Rows) -> None:
    const(rows, "CPU:0", "k1", size=None)
    const(rows, "CPU:0", "k2", size=None)
    mul(rows, "CPU:1", "a", "k1", "k2")
    mul(rows, "CPU:2", "b", "a", "k2")
    mul(rows, "CPU:3", "c", "a", "b", "^k1")


@case(
    "5.4",
    """
    CPU:0 k = Const()
    CPU:0 k/_0 = _Send(k) edge_3_k
    CPU:1 k/_1 = _Recv() edge_3_k
    CPU:1 b = Neg(k/_1)
    CPU:1 b/_2 = _Send(b) edge_6_b
    CPU:0 b/_3 = _Recv() edge_6_b
    CPU:0 _retval_b_0_0 = _Retval(b/_3)
    """,
    fetches=("b:0",),
)
def edges_are_counted_anew_after_pruning_and_the_clients_last(rows: Rows) -> None:
    const(rows, "CPU:0", "k")
    neg(rows, "CPU:1", "pruned", "k")
    neg(rows, "CPU:1", "b", "k")  # 4 and 5 are source -> k and b -> sink


# ---- 14. constants ---------------------------------------------------------------------------------------------------


@case(
    "3.9",
    """
    CPU:0 go = NoOp()
    CPU:0 k/replicate/_0 = Const(^go)
    CPU:0 a = Neg(k/replicate/_0)
    CPU:0 go/ctrl/_0 = Const(^go)
    CPU:0 go/_1 = _Send(go/ctrl/_0) edge_10_go
    CPU:1 go/_2 = _Recv() edge_10_go
    CPU:1 go/_3 = Identity(go/_2)
    CPU:1 k/replicate/_1 = Const(^go/_3)
    CPU:1 c = Neg(k/replicate/_1)
    CPU:0 go/ctrl/_4 = Const(^go)
    CPU:0 go/_5 = _Send(go/ctrl/_4) edge_12_go
    CPU:2 go/_6 = _Recv() edge_12_go
    CPU:2 go/_7 = Identity(go/_6)
    CPU:2 k/replicate/_2 = Const(^go/_7)
    CPU:2 b = Neg(k/replicate/_2)
    """,
)
def sixteen_elements_are_copied_in_order_of_devices(rows: Rows) -> None:
    op(rows, "CPU:0", "go")
    const(rows, "CPU:0", "k", "^go", size=16)
    neg(rows, "CPU:0", "a", "k")
    neg(rows, "CPU:2", "b", "k")
    neg(rows, "CPU:1", "c", "k")


@case(
    "3.9",
    """
    CPU:0 k = Const()
    CPU:0 a = Neg(k)
    CPU:0 waits = NoOp(^k)
    CPU:0 k/_0 = _Send(k) edge_5_k
    CPU:1 k/_1 = _Recv() edge_5_k
    CPU:1 b = Neg(k/_1)
    """,
)
def a_constant_that_something_waits_for_is_not_copied(rows: Rows) -> None:
    const(rows, "CPU:0", "k", size=2)
    neg(rows, "CPU:0", "a", "k")
    op(rows, "CPU:0", "waits", "^k")
    neg(rows, "CPU:1", "b", "k")


@case(
    "3.9",
    """
    CPU:0 k = Const()
    CPU:0 k/_0 = _Send(k) edge_3_k
    CPU:1 k/_1 = _Recv() edge_3_k
    CPU:1 b = Neg(k/_1)
    CPU:1 c = Neg(k/_1)
    """,
    fetches=("b", "c"),
)
def a_constant_whose_readers_that_run_are_on_one_device_is_not_copied(rows: Rows) -> None:
    const(rows, "CPU:0", "k", size=2)
    neg(rows, "CPU:0", "pruned", "k")
    neg(rows, "CPU:1", "b", "k")
    neg(rows, "CPU:1", "c", "k")


@case(
    "3.9",
    """
    chief:0/CPU:0 k/replicate/_0 = Const()
    chief:0/CPU:0 a = Neg(k/replicate/_0)
    worker:0/CPU:0 k/replicate/_1 = Const()
    worker:0/GPU:0 b = Neg(k/replicate/_1)
    worker:0/GPU:1 c = Neg(k/replicate/_1)
    """,
    cluster=GPUS,
    by=MASTER,
)
def a_gpu_reads_the_copy_on_the_cpu_of_its_task(rows: Rows) -> None:
    const(rows, "chief:0/CPU:0", "k", size=2)
    neg(rows, "chief:0/CPU:0", "a", "k")
    neg(rows, "worker:0/GPU:0", "b", "k")
    neg(rows, "worker:0/GPU:1", "c", "k")


# ---- 15. host memory -------------------------------------------------------------------------------------------------


@case(
    "5.5",
    """
    CPU:0 x = Const()
    CPU:1 y = Const()
    CPU:0 s = Shape(x)
    CPU:0 s/_0 = _HostSend(s) edge_5_s
    CPU:1 s/_1 = _HostRecv() edge_5_s
    CPU:1 r = Reshape(y, s/_1)
    CPU:1 shares = Neg(s/_1)
    CPU:0 s/_2 = _HostSend(s) edge_7_s
    CPU:2 s/_3 = _Recv() edge_7_s
    CPU:2 mixed = Neg(s/_3)
    """,
)
def a_shape_is_in_host_memory_between_cpus_too(rows: Rows) -> None:
    const(rows, "CPU:0", "x")
    const(rows, "CPU:1", "y")
    shape(rows, "CPU:0", "s", "x")
    reshape(rows, "CPU:1", "r", "y", "s")
    add(rows, "CPU:1", "shares", "Neg", "s", T=type_attr(INT32))
    add(rows, "CPU:2", "mixed", "Neg", "s", T=type_attr(INT32))


@case(
    "5.5",
    """
    CPU:0 x = Const()
    CPU:1 y = Const()
    CPU:0 text = AsString(x)
    CPU:0 text/_0 = _HostSend(text) edge_4_text
    CPU:1 text/_1 = _HostRecv() edge_4_text
    CPU:1 kept = Identity(text/_1)
    CPU:0 p = IsFinite(x)
    CPU:0 p/_2 = _Send(p) edge_7_p
    CPU:1 p/_3 = _HostRecv() edge_7_p
    CPU:1 s = Switch(y, p/_3)
    """,
)
def strings_and_predicates_are_in_host_memory_between_cpus_too(rows: Rows) -> None:
    const(rows, "CPU:0", "x", size=None)
    const(rows, "CPU:1", "y")
    add(rows, "CPU:0", "text", "AsString", "x", T=type_attr())
    add(rows, "CPU:1", "kept", "Identity", "text", T=type_attr(STRING))
    add(rows, "CPU:0", "p", "IsFinite", "x", T=type_attr())
    switch(rows, "CPU:1", "s", "y", "p")


@case(
    "5.5",
    """
    chief:0/CPU:0 k = Const()
    worker:0/GPU:0 x = Const()
    chief:0/CPU:0 k_S0 = _Send(k) edge_4_k
    worker:0/GPU:0 k_S1 = _HostRecv() edge_4_k
    worker:0/GPU:0 in_host = Reshape(x, k_S1)
    chief:0/CPU:0 k_S2 = _Send(k) edge_5_k
    worker:0/GPU:0 k_S3 = _Recv() edge_5_k
    worker:0/GPU:0 in_device = Cast(k_S3)
    """,
    cluster=GPUS,
    by=MASTER,
)
def a_gpu_that_reads_in_both_memories_is_sent_it_twice(rows: Rows) -> None:
    tensor = {"dtype": INT32, "tensor_shape": {"dim": [{"size": 17}]}, "int_val": [1]}
    add(rows, "chief:0/CPU:0", "k", "Const", dtype=type_attr(INT32), value=AttrValue(tensor=tensor))
    add(rows, "worker:0/GPU:0", "x", "Const", **typed("Const", (1,)))
    reshape(rows, "worker:0/GPU:0", "in_host", "x", "k")
    cast(rows, "worker:0/GPU:0", "in_device", "k")


@case(
    "5.5",
    """
    worker:0/GPU:0 x = Const()
    worker:0/GPU:0 s = Shape(x)
    worker:0/GPU:0 s_S0 = _HostSend(s) edge_4_s
    worker:0/GPU:0 s_S1 = _Recv(^s_S0) edge_4_s
    worker:0/GPU:0 c = Cast(s_S1)
    worker:0/GPU:0 r = Reshape(x, s)
    """,
    cluster=GPUS,
    by=MASTER,
)
def one_gpu_takes_a_value_over_from_host_memory(rows: Rows) -> None:
    const(rows, "worker:0/GPU:0", "x")
    shape(rows, "worker:0/GPU:0", "s", "x")
    cast(rows, "worker:0/GPU:0", "c", "s")
    reshape(rows, "worker:0/GPU:0", "r", "x", "s")


# ---- 16. references --------------------------------------------------------------------------------------------------


@case(
    "5.6",
    """
    CPU:0 v = VariableV2()
    CPU:1 go = NoOp()
    CPU:0 far = Const()
    CPU:0 v/_0 = _Send(v) edge_3_v
    CPU:1 v/_1 = _Recv(^go) edge_3_v at 0
    CPU:0 v/_2 = _Send(v) edge_4_v
    CPU:1 v/_3 = _Recv(^go) edge_4_v at 0
    CPU:1 twice = Mul(v/_1, v/_3, ^go)
    CPU:0 v/_4 = _Send(v) edge_6_v
    CPU:1 v/_5 = _Recv(^far/_7) edge_6_v at 0
    CPU:0 far/_6 = _Send(far) edge_7_far
    CPU:1 far/_7 = _Recv() edge_7_far
    CPU:1 after = Mul(v/_5, far/_7)
    """,
)
def readers_of_a_reference_share_nothing_and_read_after_their_other_inputs(rows: Rows) -> None:
    add(rows, "CPU:0", "v", "VariableV2", **typed("VariableV2"))
    op(rows, "CPU:1", "go")
    const(rows, "CPU:0", "far")
    mul(rows, "CPU:1", "twice", "v", "v", "^go")
    mul(rows, "CPU:1", "after", "v", "far")


# ---- 17. the client --------------------------------------------------------------------------------------------------


@case(
    "6",
    """
    CPU:1 k = Const()
    CPU:1 a = Neg(k)
    CPU:1 waits = NoOp(^a)
    CPU:0 _arg_a_0_0 = _Arg()
    CPU:0 _arg_a_0_0/_0 = _Send(_arg_a_0_0) edge_9__arg_a_0_0
    CPU:1 _arg_a_0_0/_1 = _Recv() edge_9__arg_a_0_0
    CPU:1 b = Neg(_arg_a_0_0/_1)
    """,
    feeds=("a:0",),
    fetches=("b", "waits"),
)
def what_waits_for_a_fed_node_that_is_no_placeholder_makes_it_run(rows: Rows) -> None:
    const(rows, "CPU:1", "k")
    neg(rows, "CPU:1", "a", "k")
    neg(rows, "CPU:1", "b", "a")
    op(rows, "CPU:1", "waits", "^a")


@case(
    "6",
    """
    CPU:0 _arg_x_0_0 = _Arg()
    CPU:0 _arg_x_0_0/_0 = _Send(_arg_x_0_0) edge_6__arg_x_0_0
    CPU:1 _arg_x_0_0/_1 = _Recv() edge_6__arg_x_0_0
    CPU:1 y = Neg(_arg_x_0_0/_1)
    CPU:0 _arg_x_0_0/ctrl/_2 = Const(^_arg_x_0_0)
    CPU:0 _arg_x_0_0/_3 = _Send(_arg_x_0_0/ctrl/_2) edge_7__arg_x_0_0
    CPU:1 _arg_x_0_0/_4 = _Recv() edge_7__arg_x_0_0
    CPU:1 _arg_x_0_0/_5 = Identity(_arg_x_0_0/_4)
    CPU:1 waits = NoOp(^_arg_x_0_0/_5)
    """,
    feeds=("x:0",),
    fetches=("y", "waits"),
)
def what_waits_for_a_fed_placeholder_waits_for_the_client(rows: Rows) -> None:
    add(rows, "CPU:1", "x", "Placeholder", **typed("Placeholder", (17,)))
    neg(rows, "CPU:1", "y", "x")
    op(rows, "CPU:1", "waits", "^x")


@case(
    "6",
    """
    CPU:1 k = Const()
    CPU:1 a = Neg(k)
    CPU:1 a/_0 = _Send(a) edge_4_a
    CPU:2 a/_1 = _Recv() edge_4_a
    CPU:2 b = Neg(a/_1)
    CPU:1 a/_2 = _Send(a) edge_7_a
    CPU:0 a/_3 = _Recv() edge_7_a
    CPU:0 _retval_a_0_0 = _Retval(a/_3)
    CPU:2 b/_4 = _Send(b) edge_9_b
    CPU:0 b/_5 = _Recv() edge_9_b
    CPU:0 _retval_b_0_1 = _Retval(b/_5)
    """,
    fetches=("b:0", "a:0", "b:0"),
)
def what_is_fetched_ends_at_the_client_once_and_in_order_of_names(rows: Rows) -> None:
    const(rows, "CPU:1", "k")
    neg(rows, "CPU:1", "a", "k")
    neg(rows, "CPU:2", "b", "a")


# ---- 27. the log and the pieces --------------------------------------------------------------------------------------


@case(
    "4",
    """
    CPU:0 x = Const()
    CPU:1 k/replicate/_0 = Const()
    CPU:2 k/replicate/_1 = Const()
    CPU:0 x/_0 = _Send(x) edge_3_x
    CPU:1 x/_1 = _Recv() edge_3_x
    CPU:1 a = Mul(x/_1, k/replicate/_0)
    CPU:2 b = Neg(k/replicate/_1)
    """,
    fetches=("a", "b"),
    log=("a: CPU:1", "b: CPU:2", "pruned: CPU:3", "x: CPU:0", "k: CPU:0"),
)
def the_log_has_what_is_pruned_and_copied_and_generators_last(rows: Rows) -> None:
    const(rows, "", "x")
    const(rows, "", "k", size=None)
    mul(rows, "CPU:1", "a", "x", "k")
    neg(rows, "CPU:2", "b", "k")
    neg(rows, "CPU:3", "pruned", "x")
