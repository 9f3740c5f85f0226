"""Disturbances of a training run, as people write them: "worker:3=slow:2.0", "ps:0=crash:at=2 s,for=500 ms".

    DISTURBANCE := TARGET "=" KIND [":" FIGURES]
    TARGET      := JOB:TASK | JOB:TASK/GPU:0 | JOB:* | * | link:A->B | link:NAME      A, B: tasks or devices

    slow:FACTOR                      its ops take that many times as long
    noise:lognormal:SIGMA            the work of each step is multiplied by a random factor of mean 1
    noise:exponential[:SHARE]        that share of it is exponential
    noise:empirical:FILE             factors as in the numbers of a file, one a line
    pause:every=P,for=D[,phase=T]    it stands still for D in each P
    pause:at=T,for=D                 it stands still once
    late:T                           it comes up at T
    crash:at=T,for=D[,restore=R][,checkpoint=C]    it is gone for D, then restores for R; checkpoints every C
    degrade:FACTOR                   bytes on these links take that many times as long
    traffic:RATE[,bytes=B]           others send that much from A to B, in messages of B bytes

`disturbed` applies them to a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from simulator import limits
from simulator.columns import Ints
from simulator.errors import SimvizError
from simulator.training.disturbances import noise
from simulator.training.disturbances.noise import Pauses
from simulator.units import Bytes, Nanos, parse_bytes, parse_nanos, parse_rate
from simulator.wording import choices, near

MAX_SLOWDOWN = 1000
MAX_TIME: Nanos = 10**15  # 11 days
MESSAGE_BYTES: Bytes = 2**20  # of background traffic, unless it says


@dataclass(frozen=True, slots=True)
class Slow:
    """Ops take `factor` times as long; below 1 they are faster. Work of processors for transfers stays."""

    factor: Fraction


@dataclass(frozen=True, slots=True)
class Noise:
    """A random factor of each step's work; `table` has its quantiles."""

    law: Literal["lognormal", "exponential", "empirical"]
    figure: float = 0.0  # sigma, or the exponential share
    values: tuple[float, ...] = ()  # measured durations


@dataclass(frozen=True, slots=True)
class Late:
    """The task comes up at `up_ns`: no session that needs it starts before."""

    up_ns: Nanos


@dataclass(frozen=True, slots=True)
class Crash:
    """The task is gone from `at_ns`, up again `down_ns` later and restored `restore_ns` after that.

    Updates of variables since the last checkpoint are lost; one is taken every `checkpoint_ns`, 0: at each update.
    """

    at_ns: Nanos
    down_ns: Nanos
    restore_ns: Nanos = 0
    checkpoint_ns: Nanos = 0

    @property
    def back_ns(self) -> Nanos:
        """The time at which the task works again."""
        return self.at_ns + self.down_ns + self.restore_ns


@dataclass(frozen=True, slots=True)
class Degrade:
    """Links carry a `factor`-th of their bytes per second, rounded down; their latency stays."""

    factor: Fraction


@dataclass(frozen=True, slots=True)
class Traffic:
    """Others send messages of `nbytes`, evenly spread over time, `bytes_per_s` in all."""

    bytes_per_s: int
    nbytes: Bytes = MESSAGE_BYTES


Effect: TypeAlias = Slow | Noise | Pauses | Late | Crash | Degrade | Traffic
OF_LINKS = (Degrade, Traffic)  # the other effects are on tasks


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One effect and its target, as `read_disturbance` reads them; `disturb` refuses a target that does not exist."""

    target: str  # "worker:3", "worker:3/GPU:0", "worker:*", "*"; of links "ps:0->worker:3" or a link's name
    effect: Effect
    text: str  # as it was written


_FORM = re.compile(r"(?P<target>[^=]+?)=(?P<kind>[A-Za-z_]+)(?::(?P<figures>.*))?\Z", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?\Z")


def read_disturbance(text: str) -> Disturbance:
    """Read one disturbance in the notation above. Raises SimvizError that names the wrong part and a right form.

    >>> read_disturbance("worker:3=slow:2.5").effect
    Slow(factor=Fraction(5, 2))
    >>> read_disturbance("ps:0=pause:every=2 s,for=500 ms").effect
    Pauses(phase_ns=0, period_ns=2000000000, length_ns=500000000)
    """
    found = _FORM.match(text)
    if found is None:
        raise SimvizError(
            f"{text!r} is no disturbance; write TARGET=KIND:FIGURES, for instance worker:3=slow:2.0 or "
            '"link:ps:0->worker:1=degrade:4"'
        )
    target, kind = found["target"].strip(), found["kind"]
    if kind not in _KINDS:
        raise SimvizError(f"{text!r} has the unknown kind {kind!r}; known are {choices(kind, list(_KINDS))}")
    read, examples = _KINDS[kind]
    try:
        effect = read((found["figures"] or "").strip())
    except ValueError as error:
        whole = str(error).endswith((".", "?"))
        said = f"{error}{' Write' if whole else '; write'} it like {examples}"
        raise SimvizError(f"{text!r}, after {kind!r}: {said}") from None
    on_link = target.startswith("link:")
    if on_link != isinstance(effect, OF_LINKS):
        wanted = "tasks, for instance worker:3" if on_link else 'links, for instance "link:ps:0->worker:3"'
        raise SimvizError(f"{text!r} has the target {target!r}, but {kind!r} is for {wanted}")
    return Disturbance(target.removeprefix("link:").strip(), effect, text)


@cache
def table(noise_of: Noise) -> Ints:
    """[QUANTILES] the factors of a noise. Raises ValueError for figures that make none."""
    if noise_of.law == "lognormal":
        return noise.lognormal(noise_of.figure)
    if noise_of.law == "exponential":
        return noise.exponential(noise_of.figure)
    return noise.empirical(noise_of.values)


def _factor(text: str) -> Fraction:
    factor = Fraction(_number(text, "a factor"))
    if not Fraction(1, MAX_SLOWDOWN) <= factor <= MAX_SLOWDOWN:
        raise ValueError(f"the factor {text} is not from {1 / MAX_SLOWDOWN:g} to {MAX_SLOWDOWN:,}")
    return factor


def _number(text: str, what: str) -> str:
    if not _NUMBER.match(text):
        raise ValueError(f"{text!r} is not {what} such as 2.0")
    return text


def _noise(text: str) -> Noise:
    law, colon, figure = text.partition(":")
    if law == "lognormal":
        made = Noise("lognormal", float(_number(figure, "a sigma")))
    elif law == "exponential":
        made = Noise("exponential", float(_number(figure, "a share")) if colon else 1.0)
    elif law == "empirical":
        made = Noise("empirical", values=_numbers(figure))
    else:
        laws = ("lognormal", "exponential", "empirical")
        raise ValueError(f"there is no noise {law!r}, but {choices(law, laws)}")
    table(made)  # its figures may be impossible
    return made


def _numbers(path: str) -> tuple[float, ...]:
    """The numbers of a file, one a line; blank lines and comments after "#" are left out."""
    if not path:
        raise ValueError("it names no file")
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise ValueError("it is no file")
        with Path(path).open("rb") as file:
            content = file.read(limits.NOISE_BYTES.most + 1)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path!r} cannot be read ({error})") from None
    if len(content) > limits.NOISE_BYTES.most:
        raise ValueError(f"{path!r} has more than {limits.NOISE_BYTES.most:,} bytes; {limits.NOISE_BYTES.remedy}")
    found = []
    for line, text in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        said = text.partition("#")[0].strip()
        if said:
            try:
                found.append(float(said))
            except ValueError:
                raise ValueError(f"line {line} of {path!r} is {said[:40]!r}, not one number") from None
    return tuple(found)


def _time(text: str) -> Nanos:
    time = parse_nanos(text)
    if time > MAX_TIME:
        raise ValueError(f"{text!r} is longer than 11 days")
    return time


def _settings(text: str, needed: Collection[str], optional: Collection[str]) -> Mapping[str, str]:
    """ "every=2 s,for=1 s" as a mapping. Raises ValueError for a name that is unknown, missing or given twice."""
    found: dict[str, str] = {}
    known = [*needed, *optional]
    for part in text.split(",") if text else []:
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or name not in known:
            raise ValueError(f"{part.strip()!r} is none of {', '.join(f'{one}=' for one in known)}{near(name, known)}")
        if name in found:
            raise ValueError(f"{name!r} is given twice")
        found[name] = value
    missing = [name for name in needed if name not in found]
    if missing:
        raise ValueError(f"{missing[0]!r} is missing")
    return found


def _pause(text: str) -> Pauses:
    if re.search(r"(^|,)\s*at\s*=", text):
        said = _settings(text, ("at", "for"), ())
        made = Pauses(_time(said["at"]), 0, _time(said["for"]))
    else:
        said = _settings(text, ("every", "for"), ("phase",))
        made = Pauses(_time(said.get("phase", "0 s")), _time(said["every"]), _time(said["for"]))
        if made.length_ns >= made.period_ns:
            raise ValueError(f"it pauses for {said['for']} in every {said['every']} and would never work")
    if made.length_ns == 0:
        raise ValueError("it pauses for no time")
    return made


def _crash(text: str) -> Crash:
    said = _settings(text, ("at", "for"), ("restore", "checkpoint"))
    at, down = _time(said["at"]), _time(said["for"])
    return Crash(at, down, _time(said.get("restore", "0 s")), _time(said.get("checkpoint", "0 s")))


def _traffic(text: str) -> Traffic:
    rate, comma, rest = text.partition(",")
    said = _settings(rest if comma else "", (), ("bytes",))
    made = Traffic(parse_rate(rate), parse_bytes(said["bytes"]) if "bytes" in said else MESSAGE_BYTES)
    if not made.bytes_per_s or not 0 < made.nbytes <= 2**40:
        raise ValueError("traffic has a rate above 0 and messages from 1 B to 1 TiB")
    return made


_KINDS: Mapping[str, tuple[Callable[[str], Effect], str]] = MappingProxyType(  # kind -> reader, examples
    {
        "slow": (lambda text: Slow(_factor(text)), "slow:2.0"),
        "noise": (_noise, "noise:lognormal:0.3, noise:exponential:0.5 or noise:empirical:FILE"),
        "pause": (_pause, '"pause:every=2 s,for=100 ms" or "pause:at=2 s,for=1 s"'),
        "late": (lambda text: Late(_time(text)), '"late:30 s"'),
        "crash": (_crash, '"crash:at=2 s,for=500 ms,restore=1 s,checkpoint=10 s"'),
        "degrade": (lambda text: Degrade(_factor(text)), "degrade:4"),
        "traffic": (_traffic, '"traffic:500 MB/s,bytes=1 MiB"'),
    }
)


# ---- facts for statistics -------------------------------------------------------------------------------------------


class Upsets(NamedTuple):
    """Events and chances that make one time of a run unlike another, as statistics need them."""

    chance: bool = False  # some task's work is longer or shorter by chance
    once_ns: tuple[tuple[Nanos, Nanos], ...] = ()  # begin and end of crashes and of pauses that come once, ascending
    periods_ns: tuple[Nanos, ...] = ()  # of pauses that come again and again, ascending
