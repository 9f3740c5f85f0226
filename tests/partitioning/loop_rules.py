"""Cases of the partitioner: conditionals, loops, and Recvs that are told to wait.

rules.py tells what they are.
"""

from __future__ import annotations

from tests.partitioning.worked import (
    STRING,
    TASKS,
    WORKERS,
    Case,
    add,
    back,
    const,
    enter,
    keeping,
    leave,
    merge,
    mul,
    neg,
    switch,
    test,
)
from tests.strategies import Rows, type_attr

CASES: dict[str, Case] = {}
case = keeping(CASES)


# ---- 19. control flow ------------------------------------------------------------------------------------------------


@case(
    "5.7",
    """
    CPU:0 x = Const()
    CPU:1 z = Const()
    CPU:1 p = IsFinite(z)
    CPU:1 p/_0 = _Send(p) edge_5_p
    CPU:0 p/_1 = _HostRecv() edge_5_p
    CPU:0 s = Switch(x, p/_1)
    CPU:0 s/_2 = _Send(s:1) edge_6_s
    CPU:2 s/_3 = _Recv() edge_6_s
    CPU:2 taken = Neg(s/_3)
    """,
    log=("s: CPU:1",),
)
def a_switch_runs_beside_its_data(rows: Rows) -> None:
    const(rows, "CPU:0", "x")
    const(rows, "CPU:1", "z", size=None)
    add(rows, "CPU:1", "p", "IsFinite", "z", T=type_attr())
    switch(rows, "CPU:1", "s", "x", "p")
    neg(rows, "CPU:2", "taken", "s:1")


@case(
    "5.7",
    """
    CPU:1 x = Const()
    CPU:1 x/_0 = _Send(x) edge_3_x
    CPU:0 x/_1 = _Recv() edge_3_x
    CPU:0 e = Enter(x/_1)
    CPU:0 m = Merge(e, next)
    CPU:0 going_test = IsFinite(m)
    CPU:0 going = LoopCond(going_test)
    CPU:0 s = Switch(m, going)
    CPU:0 y = Mul(s:1, s:1)
    CPU:0 next = NextIteration(y)
    CPU:0 left = Exit(s)
    CPU:0 left/_2 = _Send(left) edge_13_left
    CPU:2 left/_3 = _Recv() edge_13_left
    CPU:2 read = Neg(left/_3)
    """,
    log=("e: CPU:1", "next: CPU:3", "left: CPU:2"),
)
def what_enters_and_leaves_a_loop_needs_none_there(rows: Rows) -> None:
    const(rows, "CPU:1", "x", size=None)
    enter(rows, "CPU:1", "e", "x", "f")
    merge(rows, "CPU:0", "m", "e", "next")
    test(rows, "CPU:0", "going", "m")
    switch(rows, "CPU:0", "s", "m", "going")
    mul(rows, "CPU:0", "y", "s:1", "s:1")
    back(rows, "CPU:3", "next", "y")
    leave(rows, "CPU:2", "left", "s")
    neg(rows, "CPU:2", "read", "left")


@case(
    "5.7",
    """
    CPU:0 x = Const()
    CPU:0 e = Enter(x)
    CPU:0 m = Merge(e, next)
    CPU:0 going_test = IsFinite(m)
    CPU:0 going = LoopCond(going_test)
    CPU:0 s = Switch(m, going)
    CPU:0 s/_10 = _Send(s:1) edge_9_s
    CPU:1 s/_11 = _Recv(^_cloopy/_1) edge_9_s
    CPU:1 y = Mul(s/_11, s/_11, ^_cloopy/_1)
    CPU:1 y/_12 = _Send(y) edge_11_y
    CPU:0 y/_13 = _Recv(^_cloopnext/_6) edge_11_y
    CPU:0 next = NextIteration(y/_13)
    CPU:0 left = Exit(s)
    CPU:1 y/_4 = Const()
    CPU:1 _cloopy/_0 = Enter(y/_4)
    CPU:1 _cloopy/_1 = Merge(_cloopy/_0, _cloopy/_3)
    CPU:0 going/_14 = _Send(going) edge_17_going
    CPU:1 going/_15 = _HostRecv(^_cloopy/_1) edge_17_going
    CPU:1 _cloopy/_2 = Switch(_cloopy/_1, going/_15)
    CPU:1 _cloopy/_3 = NextIteration(_cloopy/_2:1)
    CPU:0 next/_9 = Const()
    CPU:0 _cloopnext/_5 = Enter(next/_9)
    CPU:0 _cloopnext/_6 = Merge(_cloopnext/_5, _cloopnext/_8)
    CPU:0 _cloopnext/_7 = Switch(_cloopnext/_6, going)
    CPU:0 _cloopnext/_8 = NextIteration(_cloopnext/_7:1)
    """,
)
def a_loop_is_closed_on_both_its_devices_and_a_shared_recv_leaves_a_wait_behind(rows: Rows) -> None:
    const(rows, "CPU:0", "x", size=None)
    enter(rows, "CPU:0", "e", "x", "f")
    merge(rows, "CPU:0", "m", "e", "next")
    test(rows, "CPU:0", "going", "m")
    switch(rows, "CPU:0", "s", "m", "going")
    mul(rows, "CPU:1", "y", "s:1", "s:1")
    back(rows, "CPU:0", "next", "y")
    leave(rows, "CPU:0", "left", "s")


@case(
    "5.7",
    """
    CPU:0 x = Const()
    CPU:0 e = Enter(x)
    CPU:0 m = Merge(e, next)
    CPU:0 going_test = IsFinite(m)
    CPU:0 going = LoopCond(going_test)
    CPU:0 s = Switch(m, going)
    CPU:0 s/_15 = _Send(s:1) edge_9_s
    CPU:1 s/_16 = _Recv(^_cloopy/_1) edge_9_s
    CPU:1 y = Neg(s/_16)
    CPU:1 y/_17 = _Send(y) edge_10_y
    CPU:2 y/_18 = _Recv(^_cloopz/_6) edge_10_y
    CPU:2 z = Neg(y/_18)
    CPU:2 z/_19 = _Send(z) edge_11_z
    CPU:0 z/_20 = _Recv(^_cloopnext/_11) edge_11_z
    CPU:0 next = NextIteration(z/_20)
    CPU:0 left = Exit(s)
    CPU:1 y/_4 = Const()
    CPU:1 _cloopy/_0 = Enter(y/_4)
    CPU:1 _cloopy/_1 = Merge(_cloopy/_0, _cloopy/_3)
    CPU:0 going/_21 = _Send(going) edge_17_going
    CPU:1 going/_22 = _HostRecv(^_cloopy/_1) edge_17_going
    CPU:1 _cloopy/_2 = Switch(_cloopy/_1, going/_22)
    CPU:1 _cloopy/_3 = NextIteration(_cloopy/_2:1)
    CPU:2 z/_9 = Const()
    CPU:2 _cloopz/_5 = Enter(z/_9)
    CPU:2 _cloopz/_6 = Merge(_cloopz/_5, _cloopz/_8)
    CPU:0 going/_23 = _Send(going) edge_23_going
    CPU:2 going/_24 = _HostRecv(^_cloopz/_6) edge_23_going
    CPU:2 _cloopz/_7 = Switch(_cloopz/_6, going/_24)
    CPU:2 _cloopz/_8 = NextIteration(_cloopz/_7:1)
    CPU:0 next/_14 = Const()
    CPU:0 _cloopnext/_10 = Enter(next/_14)
    CPU:0 _cloopnext/_11 = Merge(_cloopnext/_10, _cloopnext/_13)
    CPU:0 _cloopnext/_12 = Switch(_cloopnext/_11, going)
    CPU:0 _cloopnext/_13 = NextIteration(_cloopnext/_12:1)
    """,
)
def a_loop_on_three_devices_is_closed_on_each(rows: Rows) -> None:
    const(rows, "CPU:0", "x", size=None)
    enter(rows, "CPU:0", "e", "x", "f")
    merge(rows, "CPU:0", "m", "e", "next")
    test(rows, "CPU:0", "going", "m")
    switch(rows, "CPU:0", "s", "m", "going")
    neg(rows, "CPU:1", "y", "s:1")
    neg(rows, "CPU:2", "z", "y")
    back(rows, "CPU:0", "next", "z")
    leave(rows, "CPU:0", "left", "s")


@case(
    "5.7",
    """
    CPU:0 x = Const()
    CPU:0 e = Enter(x)
    CPU:0 m = Merge(e, next)
    CPU:0 going_test = IsFinite(m)
    CPU:0 going = LoopCond(going_test)
    CPU:0 s = Switch(m, going)
    CPU:0 ie = Enter(s:1)
    CPU:0 im = Merge(ie, inext)
    CPU:0 igoing_test = IsFinite(im)
    CPU:0 igoing = LoopCond(igoing_test)
    CPU:0 is = Switch(im, igoing)
    CPU:0 is/_18 = _Send(is:1) edge_15_is
    CPU:1 is/_19 = _Recv(^_cloopy/_1) edge_15_is
    CPU:1 y = Neg(is/_19)
    CPU:1 y/_20 = _Send(y) edge_16_y
    CPU:0 y/_21 = _Recv(^_cloopinext/_10) edge_16_y
    CPU:0 inext = NextIteration(y/_21)
    CPU:0 il = Exit(is)
    CPU:0 next = NextIteration(il)
    CPU:0 left = Exit(s)
    CPU:0 igoing/_22 = _Send(igoing) edge_25_igoing
    CPU:1 igoing/_23 = _HostRecv(^_cloopy/_1) edge_25_igoing
    CPU:1 _cloopy/_0 = Enter(_cloopy/_5)
    CPU:1 _cloopy/_1 = Merge(_cloopy/_0, _cloopy/_3)
    CPU:1 _cloopy/_2 = Switch(_cloopy/_1, igoing/_23)
    CPU:1 _cloopy/_3 = NextIteration(_cloopy/_2:1)
    CPU:0 going/_24 = _Send(going) edge_30_going
    CPU:1 going/_25 = _HostRecv(^_cloopy/_5) edge_30_going
    CPU:1 y/_8 = Const()
    CPU:1 _cloopy/_4 = Enter(y/_8)
    CPU:1 _cloopy/_5 = Merge(_cloopy/_4, _cloopy/_7)
    CPU:1 _cloopy/_6 = Switch(_cloopy/_5, going/_25)
    CPU:1 _cloopy/_7 = NextIteration(_cloopy/_6:1)
    CPU:0 _cloopinext/_9 = Enter(_cloopinext/_14)
    CPU:0 _cloopinext/_10 = Merge(_cloopinext/_9, _cloopinext/_12)
    CPU:0 _cloopinext/_11 = Switch(_cloopinext/_10, igoing)
    CPU:0 _cloopinext/_12 = NextIteration(_cloopinext/_11:1)
    CPU:0 inext/_17 = Const()
    CPU:0 _cloopinext/_13 = Enter(inext/_17)
    CPU:0 _cloopinext/_14 = Merge(_cloopinext/_13, _cloopinext/_16)
    CPU:0 _cloopinext/_15 = Switch(_cloopinext/_14, going)
    CPU:0 _cloopinext/_16 = NextIteration(_cloopinext/_15:1)
    """,
)
def a_loop_within_a_loop_has_both_closed_from_the_inside(rows: Rows) -> None:
    const(rows, "CPU:0", "x", size=None)
    enter(rows, "CPU:0", "e", "x", "f")
    merge(rows, "CPU:0", "m", "e", "next")
    test(rows, "CPU:0", "going", "m")
    switch(rows, "CPU:0", "s", "m", "going")
    enter(rows, "CPU:0", "ie", "s:1", "g")
    merge(rows, "CPU:0", "im", "ie", "inext")
    test(rows, "CPU:0", "igoing", "im")
    switch(rows, "CPU:0", "is", "im", "igoing")
    neg(rows, "CPU:1", "y", "is:1")
    back(rows, "CPU:0", "inext", "y")
    leave(rows, "CPU:0", "il", "is")
    back(rows, "CPU:0", "next", "il")
    leave(rows, "CPU:0", "left", "s")


@case(
    "5.7",
    """
    CPU:0 x = Const()
    CPU:0 c = Const()
    CPU:0 c/_10 = _Send(c) edge_4_c
    CPU:1 c/_11 = _Recv() edge_4_c
    CPU:1 fixed = Enter(c/_11)
    CPU:0 e = Enter(x)
    CPU:0 m = Merge(e, next)
    CPU:0 going_test = IsFinite(m)
    CPU:0 going = LoopCond(going_test)
    CPU:0 s = Switch(m, going)
    CPU:0 s/_12 = _Send(s:1) edge_10_s
    CPU:1 s/_13 = _Recv(^_cloopy/_1) edge_10_s
    CPU:1 y = Mul(s/_13, fixed)
    CPU:1 y/_14 = _Send(y) edge_12_y
    CPU:0 y/_15 = _Recv(^_cloopnext/_6) edge_12_y
    CPU:0 next = NextIteration(y/_15)
    CPU:0 left = Exit(s)
    CPU:1 y/_4 = Const()
    CPU:1 _cloopy/_0 = Enter(y/_4)
    CPU:1 _cloopy/_1 = Merge(_cloopy/_0, _cloopy/_3)
    CPU:0 going/_16 = _Send(going) edge_19_going
    CPU:1 going/_17 = _HostRecv(^_cloopy/_1) edge_19_going
    CPU:1 _cloopy/_2 = Switch(_cloopy/_1, going/_17)
    CPU:1 _cloopy/_3 = NextIteration(_cloopy/_2:1)
    CPU:0 next/_9 = Const()
    CPU:0 _cloopnext/_5 = Enter(next/_9)
    CPU:0 _cloopnext/_6 = Merge(_cloopnext/_5, _cloopnext/_8)
    CPU:0 _cloopnext/_7 = Switch(_cloopnext/_6, going)
    CPU:0 _cloopnext/_8 = NextIteration(_cloopnext/_7:1)
    """,
    log=("fixed: CPU:0",),
)
def what_stays_the_same_enters_beside_its_reader_and_crosses_outside(rows: Rows) -> None:
    const(rows, "CPU:0", "x", size=None)
    const(rows, "CPU:0", "c", size=None)
    enter(rows, "CPU:0", "e", "x", "f")
    enter(rows, "CPU:0", "fixed", "c", "f", constant=True)
    merge(rows, "CPU:0", "m", "e", "next")
    test(rows, "CPU:0", "going", "m")
    switch(rows, "CPU:0", "s", "m", "going")
    mul(rows, "CPU:1", "y", "s:1", "fixed")
    back(rows, "CPU:0", "next", "y")
    leave(rows, "CPU:0", "left", "s")


# ---- 20. Recvs that wait ---------------------------------------------------------------------------------------------


def _idle(task: str, count: int) -> str:
    """Triggers for whose epochs nothing starts before."""
    return "\n".join(f"{task}/CPU:0 synch_{at}_G{at} = ControlTrigger() at {at}" for at in range(count))


@case(
    "5.8",
    f"""
    ps:0/CPU:0 k = Const() at 1
    ps:0/CPU:0 k_S0 = _Send(k) edge_3_k at 1
    {_idle("ps:0", 2)}
    ps:0/CPU:0 synch_2_G2 = ControlTrigger(^k) at 2
    worker:0/CPU:0 k_S1 = _Recv(^synch_6_G6) edge_3_k at 12
    worker:0/CPU:0 a = Neg(k_S1) at 12
    worker:0/CPU:0 a_S2 = _Send(a) edge_6_a at 12
    {_idle("worker:0", 13)}
    worker:0/CPU:0 synch_13_G13 = ControlTrigger(^k_S1) at 13
    worker:0/CPU:0 synch_14_G14 = ControlTrigger(^a) at 14
    chief:0/CPU:0 a_S3 = _Recv(^synch_17_G17) edge_6_a at 23
    chief:0/CPU:0 _send_a_0 = _Send(a_S3) a:0 at 23
    {_idle("chief:0", 24)}
    chief:0/CPU:0 synch_24_G24 = ControlTrigger(^a_S3) at 24
    """,
    cluster=TASKS,
    by=WORKERS,
    fetches=("a:0",),
    recv_scheduling=True,
)
def a_recv_waits_for_the_trigger_six_epochs_before_it(rows: Rows) -> None:
    const(rows, "ps:0/CPU:0", "k")
    neg(rows, "worker:0/CPU:0", "a", "k")


@case(
    "5.8",
    f"""
    ps:0/CPU:0 x = Const() at 1
    ps:0/CPU:0 text = AsString(x) at 2
    ps:0/CPU:0 text_S0 = _HostSend(text) edge_4_text at 2
    {_idle("ps:0", 2)}
    ps:0/CPU:0 synch_2_G2 = ControlTrigger(^x) at 2
    ps:0/CPU:0 synch_3_G3 = ControlTrigger(^text) at 3
    worker:0/CPU:0 text_S1 = _HostRecv() edge_4_text at 13
    worker:0/CPU:0 kept = Identity(text_S1) at 13
    worker:0/CPU:0 kept_S2 = _HostSend(kept) edge_7_kept at 13
    {_idle("worker:0", 14)}
    worker:0/CPU:0 synch_14_G14 = ControlTrigger(^text_S1) at 14
    worker:0/CPU:0 synch_15_G15 = ControlTrigger(^kept) at 15
    chief:0/CPU:0 kept_S3 = _HostRecv() edge_7_kept at 24
    chief:0/CPU:0 _send_kept_0 = _Send(kept_S3) kept:0 at 24
    {_idle("chief:0", 25)}
    chief:0/CPU:0 synch_25_G25 = ControlTrigger(^kept_S3) at 25
    """,
    cluster=TASKS,
    by=WORKERS,
    fetches=("kept:0",),
    recv_scheduling=True,
)
def a_recv_in_host_memory_waits_for_no_trigger(rows: Rows) -> None:
    const(rows, "ps:0/CPU:0", "x", size=None)
    add(rows, "ps:0/CPU:0", "text", "AsString", "x", T=type_attr())
    add(rows, "worker:0/CPU:0", "kept", "Identity", "text", T=type_attr(STRING))


HOPS = 10


def _chain() -> str:
    """n1 to n10, on the worker and on ps in turn, each a microsecond and a copy after the one before it; k is at 1.

    Each device is busy until after 100, so that an epoch takes two microseconds.
    """
    on = ("ps:0/CPU:0", "worker:0/CPU:0")
    made = [f"{on[0]} k = Const() at 1", f"{on[0]} k_S0 = _Send(k) edge_3_k at 1"]
    done = {on[0]: [("k", 1), ("k_S0", 2)], on[1]: [], "chief:0/CPU:0": [("n10_S21", 122), ("_send_n10_0", 123)]}
    before, edge = "k", 3
    for at in range(1, HOPS + 1):
        here, name, start = on[at % 2], f"n{at}", 1 + 11 * at
        recv, send, early = f"{before}_S{2 * at - 1}", f"{name}_S{2 * at}", start // 2 - 6
        made.append(f"{here} {recv} = _Recv(^synch_{early}_G{early}) edge_{edge}_{before} at {start}")
        made.append(f"{here} {name} = Neg({recv}) at {start}")
        before, edge = name, edge + 1 if at < HOPS else edge + 3  # after source -> k and n10 -> sink
        made.append(f"{here} {send} = _Send({name}) edge_{edge}_{name} at {start}")
        done[here] += [(recv, start), (name, start + 1), (send, start + 2)]
    made.append("chief:0/CPU:0 n10_S21 = _Recv(^synch_55_G55) edge_15_n10 at 122")
    made.append("chief:0/CPU:0 _send_n10_0 = _Send(n10_S21) n10:0 at 122")
    for device, order in done.items():
        for at in range(order[-1][1] // 2 + 1):
            wait = [f"^{name}" for name, when in order if when < 2 * at][-1:]
            made.append(f"{device} synch_{at}_G{at} = ControlTrigger({''.join(wait)}) at {2 * at}")
    return "\n".join(made)


@case("5.8", _chain(), cluster=TASKS, by=WORKERS, fetches=(f"n{HOPS}:0",), recv_scheduling=True)
def after_a_hundred_microseconds_epochs_are_longer(rows: Rows) -> None:
    const(rows, "ps:0/CPU:0", "k")
    for at in range(1, HOPS + 1):
        neg(rows, ("ps:0/CPU:0", "worker:0/CPU:0")[at % 2], f"n{at}", f"n{at - 1}" if at > 1 else "k")
