"""Regimes say when updates are made: "async", "sync:aggregate=8,total=10,tokens=4", "ssp:bound=3".

    async    every gradient is applied as it comes
    sync     an update averages `aggregate` gradients of `total` workers; tokens let the workers go on
    ssp      as async, but no worker's clock runs more than `bound` ahead of the slowest

`KINDS` is the table of them: what is read, refused, explained and simulated follows its rows. A regime is made of what
its workers wait for: accumulators and a token queue in the graph, a rule of clocks (`control.clocks`), or neither.

The numbers of `sync` are those of TensorFlow's SyncReplicasOptimizer
(tensorflow/python/training/sync_replicas_optimizer.py); `ssp` is stale synchronous parallel (Ho et al., NIPS 2013).
This module imports nothing heavy, as the command's help is made from the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

from simulator.errors import DeadlockError, SimvizError
from simulator.wording import counted, near

# Codes of clock rules: nobody waits; a clock may be `ahead` steps ahead of the slowest; the same, without messages.
FREE, BOUNDED, TOGETHER = range(3)


class ClockRule(NamedTuple):
    """A rule by which workers wait between steps for the slowest of them (`control.clocks`)."""

    code: int = FREE
    ahead: int = 0  # steps that a clock may be ahead of the slowest, at most, when its worker begins a step
    others: tuple[int, ...] = ()  # further numbers of the rule


NO_RULE, IN_STEP = ClockRule(), ClockRule(TOGETHER)


@dataclass(frozen=True, slots=True)
class RegimeArgument:
    """A number of a regime and its range."""

    symbol: str  # in the help
    least: int
    most: int
    example: int  # in messages
    required: bool = False  # not: it has a default


@dataclass(frozen=True, slots=True)
class Regime:
    """A rule for updates and waiting; a number that is None takes its default. `str()` writes it as it is read.

    Raises SimvizError for an unknown kind, a number out of its range, or one that the kind does not have.

    >>> str(Regime("sync", aggregate=8, total=10))
    'sync:aggregate=8,total=10'
    """

    kind: str  # of `KINDS`
    aggregate: int | None = None  # sync: gradients per update; None: total
    total: int | None = None  # sync: replicas that compute gradients; None: all workers
    tokens: int | None = None  # sync: in the queue before the first step; None: aggregate
    bound: int | None = None  # ssp: steps that a worker may be ahead of the slowest

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise SimvizError(f"There is no regime {self.kind!r}; {FORM}.{near(self.kind, list(KINDS))}")
        known = KINDS[self.kind].arguments
        for name in (one.name for one in fields(self) if one.name != "kind"):
            value, argument = getattr(self, name), known.get(name)
            if value is None:
                if argument is not None and argument.required:
                    such = f"{self.kind}:{name}={argument.example}"
                    raise SimvizError(f"The regime {self.kind} needs its {name}, such as {such}; {FORM}.")
            elif argument is None:
                raise SimvizError(f"The regime {self.kind} has no {name!r}; {FORM}.")
            elif not argument.least <= value <= argument.most:
                allowed = f"from {argument.least} to {argument.most:,}"
                raise SimvizError(f"The regime {self.kind} has {name}={value}; give a number {allowed}.")

    def __str__(self) -> str:
        numbers = {name: getattr(self, name) for name in KINDS[self.kind].arguments}
        given = [f"{name}={value}" for name, value in numbers.items() if value is not None]
        return f"{self.kind}:{','.join(given)}" if given else self.kind

    @property
    def averages(self) -> bool:
        """Tell whether an update averages gradients, which workers hand to accumulators; then they wait for a token."""
        return KINDS[self.kind].averages

    @property
    def clock_rule(self) -> ClockRule:
        """The rule by which its workers wait for the slowest clock."""
        return KINDS[self.kind].clock_rule(self)


def read_regime(text: str) -> Regime | None:
    """Read a regime; "none" is None. Raises SimvizError that says what is allowed.

    >>> str(read_regime("sync:total=10,aggregate=8"))
    'sync:aggregate=8,total=10'
    """
    kind, colon, rest = text.strip().partition(":")
    if kind == "none" and not colon:
        return None
    if kind not in KINDS:
        raise SimvizError(f"{text!r} is not a regime; {FORM}.{near(kind, ['none', *KINDS])}")
    known = list(KINDS[kind].arguments)
    numbers: dict[str, int] = {}
    for part in rest.split(",") if colon else ():
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or name not in known:
            allowed = f"takes {', '.join(known)}" if known else "takes no numbers"
            meant = near(name, [word for word in known if word != name])
            raise SimvizError(f"{part!r} in {text!r}: the regime {kind} {allowed}; {FORM}.{meant}")
        if name in numbers:
            raise SimvizError(f"{text!r} gives {name!r} twice; give it once.")
        try:
            numbers[name] = int(value)
        except ValueError:
            raise SimvizError(f"{part!r} in {text!r}: {name} is a whole number; {FORM}.") from None
    return Regime(kind, **numbers)


def with_defaults(regime: Regime, workers: int) -> Regime:
    """The regime with its defaults, for that many workers.

    Raises SimvizError where `total` is another number, DeadlockError where the first update can never be made.
    """
    if not regime.averages:
        return regime
    total = workers if regime.total is None else regime.total
    if total != workers:
        raise SimvizError(
            f"The regime {regime} is for total={total} replicas, but {counted(workers, 'worker')} would be started "
            f"(towers within a worker count as one). Start {total}, or write total={workers}."
        )
    aggregate = total if regime.aggregate is None else regime.aggregate
    tokens = aggregate if regime.tokens is None else regime.tokens
    _check_first_update(aggregate, workers, tokens)
    return replace(regime, aggregate=aggregate, total=total, tokens=tokens)


def tokens_per_update(regime: Regime) -> int:
    """The number of tokens that the chief hands out after an update, of a synchronous regime with its defaults."""
    return max(regime.aggregate or 0, regime.total or 0)


def _check_first_update(aggregate: int, workers: int, tokens: int) -> None:
    """Refuse what hangs: before the first update a worker makes a gradient, and one more for each token that it gets.

    Every later update finds the tokens of the one before, each good for one gradient (`_check_later_updates`).
    """
    if workers + tokens < aggregate:
        raise DeadlockError(
            f"The first update waits for {aggregate} gradients, but {counted(workers, 'worker')} with "
            f"{counted(tokens, 'token')} can make only {workers + tokens} before it. Start with tokens="
            f"{aggregate - workers} or more, or aggregate at most {workers + tokens}."
        )


def describe(regime: Regime, workers: int) -> str:
    """Explain the regime, for that many workers, in a sentence or two. Raises what `with_defaults` raises."""
    return KINDS[regime.kind].sentence(with_defaults(regime, workers))


# ---- the table ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RegimeKind:
    """A row of the table."""

    summary: str  # for the help
    sentence: Callable[[Regime], str]  # explains a regime with its defaults
    arguments: Mapping[str, RegimeArgument] = field(default_factory=dict)  # by the name of the field of `Regime`
    averages: bool = False  # its updates average gradients, by accumulators and a token queue
    clock_rule: Callable[[Regime], ClockRule] = lambda regime: NO_RULE


def _synchronous(regime: Regime) -> str:
    aggregate, total, tokens = regime.aggregate or 0, regime.total or 0, regime.tokens or 0
    if aggregate == total == 1:
        return "Synchronous, of one worker: it waits for nobody."
    if aggregate == total:
        who = f"An update averages the gradients of all {total} workers"
    elif aggregate < total:
        who = (
            f"An update averages the first {aggregate} gradients; {counted(total - aggregate, 'worker')} of {total} "
            f"{'is' if total - aggregate == 1 else 'are'} backup, and what comes too late is dropped"
        )
    else:
        several = "which makes several batches" if total == 1 else "which make several batches each"
        who = f"An update averages {aggregate} gradients of {counted(total, 'worker')}, {several}"
    return (
        f"Synchronous: {who}. A worker goes on with a token; there are {tokens} at first and each update hands out "
        f"{tokens_per_update(regime)}."
    )


KINDS: dict[str, RegimeKind] = {
    "async": RegimeKind(
        "each gradient is applied when it arrives",
        lambda regime: (
            "Asynchronous: each worker's gradients are applied as they come, and it goes on at once; what it computed "
            "with may be older than what it changes."
        ),
    ),
    "sync": RegimeKind(
        "an update averages A gradients of T workers; the T - A slowest are backups; K tokens let workers start before "
        "the first update (default: A = T = all workers, K = A)",
        _synchronous,
        {
            "aggregate": RegimeArgument("A", 1, 10_000, example=8),
            "total": RegimeArgument("T", 1, 10_000, example=10),
            # All but A of the first tokens cause a step whose gradients come too late: with many, a run hardly ends.
            "tokens": RegimeArgument("K", 0, 10_000, example=4),
        },
        averages=True,
    ),
    "ssp": RegimeKind(
        "as async, but no worker is more than B steps ahead",
        lambda regime: (
            "Bounded staleness: as asynchronous training, but no worker begins a step while it is more than "
            f"{counted(regime.bound or 0, 'step')} ahead of the slowest."
        ),
        {"bound": RegimeArgument("B", 0, 10**6, example=3, required=True)},
        clock_rule=lambda regime: ClockRule(BOUNDED, regime.bound or 0),
    ),
}


def _forms() -> list[str]:
    """The regimes as they are written, with an example for each that takes numbers."""
    forms = ["none"]
    for name, kind in KINDS.items():
        given = ",".join(f"{one}={argument.example}" for one, argument in kind.arguments.items())
        if not any(argument.required for argument in kind.arguments.values()):
            forms.append(name)
        forms += [f"{name}:{given}"] if given else []
    return forms


def _help() -> str:
    parts = []
    for name, kind in KINDS.items():
        given = ",".join(f"{one}={argument.symbol}" for one, argument in kind.arguments.items())
        required = any(argument.required for argument in kind.arguments.values())
        parts.append(name + (f":{given}" if required else f"[:{given}]" if given else "") + f": {kind.summary}. ")
    return "".join(parts) + "none (default): one step"


FORMS = tuple(_forms())
FORM = f"write {', '.join(FORMS[:-1])} or {FORMS[-1]}"
HELP = _help()
