"""A hostile number in the place of each number that an option, or a part of its value, can have."""

from __future__ import annotations

from collections.abc import Sequence

# The options of a step, then of a training; {} is the number.
STEP = (
    "--batch {}", "--seed {}", "--budget {}ms", "--trips *={}", "--branch y={}", "--observe-time {}",
    "--observe-time {}min", "--observe-memory {}", "--observe-memory {}GiB", "--picture rows={}",
    "--picture width={}mm", "--picture boxes={}", "--picture depth={}", "--feed x={}", "--feed x=2,{}",
    "--feed x:{}=2,8", "--fetch y:{}",
    "--cluster {}gpu", "--cluster ps={},worker=1", "--cluster ps=1,worker=2x{}gpu", "--cluster cpu={}", "--cluster {}",
    "--master localhost:{}", "--pin y=GPU:{}", "--pin y=localhost:{}/GPU:0", "--against {}", "--against {}gpu",
    "--compare {}", "--what-if {}", "--signature {}", "--costs {}", "--profile {}", "--order {}", "--engine {}",
    "--protocol {}", "--json {}", "--algorithm {}", "--check {}", "--observation {}", "--recv-scheduling {}",
    "--microbatches {}", "--pipeline {}", "--stages {}",
)  # fmt: skip
TRAINING = (
    "--seed {}", "--steps {}", "--workers 1,{}", "--until-ci {}", "--until-ci {}%", "--fuse {}", "--fuse {}MiB",
    "--gap {}", "--gap {}ms", "--input {}/s", "--input feed={}/s", "--master worker:{}", "--batch {}",
    "--training sync:aggregate={}", "--training sync:aggregate=1,total={}", "--training ssp:bound={}",
    "--training sync:tokens={}", "--disturb worker:0=slow:{}", "--disturb worker:{}=slow:2",
    "--disturb worker:*=noise:lognormal:{}", "--disturb *=noise:exponential:{}",
    "--disturb ps:0=pause:every={} ms,for=1 ms", "--disturb ps:0=pause:every=5 ms,for={} ms",
    "--disturb worker:1=late:{} s", "--disturb worker:0=crash:at={} ms,for=5 ms",
    "--disturb link:ps:0->worker:0=degrade:{}", "--disturb link:ps:0->worker:0=traffic:{} GB/s",
    "--device-filters /job:worker/task:{}", "--ps-strategy {}", "--replicate {}", "--against {}",
)  # fmt: skip
WORST = ("1" * 30, "9" * 5000, "-1", "0", "inf", "nan", "1e400", "--")
NUMBERS = (
    *WORST, "-0", "-inf", "NaN", "1e9", "-1e-400", "1.5", "0x10", "1_000", "٣", "²", "", "  ", "+3", "1e",
    "0." + "0" * 5000 + "1", "true", "1,2", "'1'", "18446744073709551616", "9223372036854775808", "2147483648",
    "4294967296",
)  # fmt: skip
_TRAINED = ("--cluster", "ps=1,worker=2", "--training", "async", "--steps", "3")
_WISHES = ("--steps", "--until-ci", "--workers", "--trips", "--budget")  # a large number is a wish that takes its time


def typed(graph: str, form: str, number: str, *, trains: bool) -> list[str]:
    """The arguments of a call with that number; what a training needs stands before it."""
    option, _, value = form.partition(" ")
    given = value.format(number)
    before = [part for pair in zip(_TRAINED[::2], _TRAINED[1::2], strict=True) for part in pair if pair[0] != option]
    own = [f"{option}={given}"] if given.startswith("-") else [option, given]
    return [graph, *(before if trains else ()), *own]


def is_wish(form: str, number: str) -> bool:
    """Whether a call with it rightly takes long."""
    return form.startswith(_WISHES) and number.strip("'+").replace("_", "").isdecimal() and len(number) > 3


def forms(*, trains: bool) -> Sequence[str]:
    """The options of a training, or of a step."""
    return TRAINING if trains else STEP
