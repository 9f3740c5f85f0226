"""The machines by themselves: who may go on, first come, first served."""

from __future__ import annotations

from simulator.training.crew.synchronising import Accumulator, Clocks, TokenQueue


def test_a_take_empties_the_accumulator_whatever_it_needed() -> None:
    machine = Accumulator()
    assert [machine.apply(0) for _ in range(3)] == [True] * 3
    machine.ask(7, 2)
    machine.ask(8, 1)
    assert (machine.admitted(), machine.count, machine.step) == (7, 0, 1)
    assert machine.admitted() == -1
    assert not machine.apply(0)  # too late
    assert machine.apply(5)  # ahead of it
    assert (machine.admitted(), machine.dropped) == (8, 1)


def test_the_first_taker_holds_up_those_that_need_less() -> None:
    machine = Accumulator()
    machine.ask(1, 2)
    machine.ask(2, 1)
    machine.apply(0)
    assert machine.admitted() == -1
    machine.forget(1)
    assert machine.admitted() == 2


def test_tokens_come_out_in_the_order_in_which_they_went_in() -> None:
    queue = TokenQueue()
    for who in (1, 2, 3):
        queue.dequeue(who, 2)
    queue.enqueue(10, 4, 3)
    queue.enqueue(11, 5, 2)
    assert queue.admitted() == [(10, -1), (11, -1), (1, 4), (2, 5)]  # 2 took a 4 and a 5: the last counts
    assert queue.size == 0
    queue.enqueue(12, 6, 1)
    assert queue.admitted() == [(12, -1), (3, 6)]  # it had one already


def test_what_does_not_fit_waits_and_goes_in_as_room_comes() -> None:
    queue = TokenQueue(capacity=2)
    queue.enqueue(10, 1, 5)
    assert (queue.admitted(), queue.size) == ([], 2)
    queue.dequeue(1, 3)
    assert queue.admitted() == [(1, 1), (10, -1)]  # more than there is room for at once
    assert queue.size == 2


def test_a_reserve_stays() -> None:
    queue = TokenQueue()
    queue.enqueue(10, 1, 3)
    queue.dequeue(1, 2, reserve=2)
    assert (queue.admitted(), queue.size) == ([(10, -1)], 2)
    queue.enqueue(11, 1, 1)
    assert (queue.admitted(), queue.size) == ([(11, -1), (1, 1)], 2)


def test_clocks_let_all_go_that_a_tick_frees() -> None:
    clocks = Clocks([True, True, True, False], 1)
    assert [clocks.tick(0), clocks.tick(0)] == [[], []]
    assert not clocks.may(0)
    assert clocks.may(3)
    assert clocks.tick(1) == []
    assert clocks.tick(2) == [0]
    assert clocks.slowest == 1
