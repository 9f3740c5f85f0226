"""The algebra of dimensions against numbers: whatever the symbols stand for, a result stands for the result."""

from collections.abc import Callable, Mapping

from hypothesis import given
from hypothesis import strategies as st

from simulator.shapes.dims import SYMBOLS, Algebra

NAMES = "abc"
SIZES = st.fixed_dictionaries({name: st.integers(1, 30) for name in NAMES})
LEAVES = st.one_of(st.integers(0, 12), st.sampled_from(NAMES))
TREES = st.recursive(
    LEAVES, lambda inner: st.tuples(st.sampled_from(("plus", "minus", "times")), inner, inner), max_leaves=8
)
PLAIN: Mapping[str, Callable[[int, int], int]] = {
    "plus": lambda a, b: a + b,
    "minus": lambda a, b: a - b,
    "times": lambda a, b: a * b,
}


def symbolic(algebra: Algebra, tree: object) -> int:
    if isinstance(tree, str):
        return algebra.symbol(tree)
    if isinstance(tree, tuple):
        name, a, b = tree
        made: int = getattr(algebra, name)(symbolic(algebra, a), symbolic(algebra, b))
        return made
    assert isinstance(tree, int)
    return tree


def number(tree: object, sizes: Mapping[str, int]) -> int:
    if isinstance(tree, str):
        return sizes[tree]
    if isinstance(tree, tuple):
        name, a, b = tree
        return PLAIN[name](number(a, sizes), number(b, sizes))
    assert isinstance(tree, int)
    return tree


def bound(sizes: Mapping[str, int], algebra: Algebra) -> None:
    for name, size in sizes.items():
        algebra.bind(algebra.symbol(name), size)


@given(TREES, SIZES)
def test_an_expression_of_bound_symbols_is_its_number(tree: object, sizes: Mapping[str, int]) -> None:
    algebra = Algebra()
    made = symbolic(algebra, tree)
    bound(sizes, algebra)
    assert algebra.resolved(made) == number(tree, sizes)


@given(TREES, TREES, SIZES)
def test_equal_symbols_are_equal_numbers(one: object, other: object, sizes: Mapping[str, int]) -> None:
    algebra = Algebra()
    if symbolic(algebra, one) == symbolic(algebra, other):
        assert number(one, sizes) == number(other, sizes)


@given(TREES, TREES, SIZES)
def test_a_quotient_without_rest_times_the_divisor_is_the_dividend(
    a: object, b: object, sizes: Mapping[str, int]
) -> None:
    algebra = Algebra()
    made = algebra.quotient(symbolic(algebra, a), symbolic(algebra, b))
    if made is not None:
        bound(sizes, algebra)
        assert algebra.resolved(made) * number(b, sizes) == number(a, sizes)


def test_a_batch_that_is_folded_and_unfolded_is_the_batch() -> None:
    algebra = Algebra()
    batch = algebra.symbol("batch")
    assert algebra.quotient(algebra.product((batch, 7, 7, 64)), algebra.product((7, 7, 64))) == batch
    assert algebra.quotient(algebra.times(batch, 6), 4) is None
    assert algebra.minus(algebra.plus(batch, 3), 3) == batch


def test_what_is_computed_of_a_symbol_binds_it() -> None:
    algebra = Algebra()
    batch = algebra.symbol("batch")
    algebra.bind(algebra.plus(algebra.times(batch, 3), 2), 14)
    assert algebra.resolved(batch) == 4


def test_a_symbol_is_below_every_number_of_a_tensor() -> None:
    assert Algebra().symbol("x") <= SYMBOLS < -(2**63)
