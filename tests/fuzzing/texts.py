"""Texts of the fuzzer: clusters in every notation, measured times, and changes of bytes and of tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from random import Random

NUMBERS = (
    "0", "1", "2", "3", "7", "-1", "16", "63", "64", "1024", "1025", "4096", "65535", "65536", "65537", "99999",
    "2147483647", "2147483648", "4294967296", "9007199254740993", "4611686018427387904", "9223372036854775807",
    "9223372036854775808", "18446744073709551616", "-9223372036854775808", "1e9", "1e308", "1e-300", "1e999", "nan",
    "inf", "-inf", "-0.0", "0.5", "1.5", "0x10", "1_000", "٣", "²", "１", "1" * 30, "9" * 400, "8" * 5000, "", " ",
)  # fmt: skip
NAMES = (
    "a", "x", "y", "w", "ps", "worker", "chief", "localhost", "", " ", "/", "//", "a/b", "a:0", ":", "^a", "_a", "-",
    "--", "a b", "a=b", "a,b", "*", "\t", "\n", "é", "名", "\u202e", "\u2028", "\x1b[31m", "\x7f", "'", '"', "\\",
    "<b>", "</script><script>alert(1)</script>", "%s%n", "{0}", "$(x)", "`x`", "..", "../../x", "NUL", "a" * 300,
    "z" * 70000, "/job:ps/task:0", "/job:a b/task:0", "true", "none", "null", "nan", "cpu", "gpu",
)  # fmt: skip
UNITS = ("", "B", "kB", "MB", "GB", "GiB", "TB", "PB", "GB/s", "Gbit/s", "GiB/s", "B/s", "ns", "us", "ms", "s", "%",
         "/s", "TFLOP/s", "FLOP/s", "PFLOP/s", "x", "h", "µs")  # fmt: skip


class Chance(Random):
    """A source of draws, and how hostile they are: a figure or a name is bad with the probability `heat`."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self.heat = self.choice((0.0, 0.01, 0.05, 0.2))

    @property
    def bad(self) -> bool:
        """Whether what is drawn next should be bad."""
        return self.random() < self.heat


_TOKEN = re.compile(r"[A-Za-z_][\w./-]*|-?\d+(?:\.\d+)?|\s+|.", re.DOTALL)


def number(random: Chance) -> str:
    """A number as a text, which is small if it is not bad."""
    return random.choice(NUMBERS) if random.bad else str(random.randrange(1, 9))


def name(random: Chance, *good: str) -> str:
    """One of the good names, or a bad one."""
    return random.choice(NAMES) if random.bad else random.choice(good)


def quantity(random: Chance) -> str:
    """A number with a unit, which is rarely the right one."""
    return f"{number(random)}{random.choice(('', ' '))}{random.choice(UNITS)}"


def changed_bytes(raw: bytes, random: Chance, others: Sequence[bytes]) -> bytes:
    """The bytes with one to eight changes: bits, inserted or doubled parts, cuts, and parts of other seeds."""
    made = bytearray(raw)
    for _ in range(random.randrange(1, 9)):
        at, length = random.randrange(len(made) + 1), random.choice((1, 1, 2, 4, 16, 200))
        way = random.randrange(7)
        if way == 0 and at < len(made):
            made[at] ^= 1 << random.randrange(8)
        elif way == 1:
            made[at:at] = random.randbytes(length)
        elif way == 2:
            del made[at : at + length]
        elif way == 3:
            made[at:at] = made[at : at + length] * random.choice((1, 2, 30))
        elif way == 4 and random.random() < 0.3:
            del made[at:]
        elif way == 5:
            other = random.choice(others)
            begin = random.randrange(len(other) + 1)
            made[at : at + length] = other[begin : begin + length]
        elif at < len(made):
            made[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF, 0x0A, 0x22, 0x7B))
    return bytes(made)


def changed_text(text: str, random: Chance) -> str:
    """The text with one to six tokens changed: doubled, dropped, swapped, or replaced by a hostile one."""
    tokens = _TOKEN.findall(text)
    for _ in range(random.randrange(1, 7)):
        if not tokens:
            break
        at, to = random.randrange(len(tokens)), random.randrange(len(tokens))
        way = random.randrange(9)
        if way < 3:  # a number or a word by one of its kind
            wanted = str.isdigit if way else str.isidentifier
            at = next((row for row in range(at, len(tokens)) if wanted(tokens[row])), at)
            tokens[at] = number(random) if way else random.choice(NAMES)
        elif way == 3:
            del tokens[at]
        elif way == 4:
            tokens[at], tokens[to] = tokens[to], tokens[at]
        elif way == 5:
            first, last = min(at, to), min(max(at, to), min(at, to) + 60)
            tokens[first:first] = tokens[first:last] * random.choice((1, 1, 3, 40))
        elif way == 6:
            tokens[at:at] = [random.choice("{}[]()<>\"':;,=#\n\0\\") * random.choice((1, 1, 2, 200, 3000, 60_000))]
        elif way == 7:
            del tokens[min(at, to) : min(min(at, to) + 40, max(at, to))]
        else:
            tokens[at] = tokens[to]
    return "".join(tokens)


# ---- clusters and costs ---------------------------------------------------------------------------------------------


def cluster_text(random: Chance) -> str:
    """The compact notation, as somebody could mistype it."""

    def model() -> str:
        return (
            random.choice(("x100", "GPU", "")) if random.bad else random.choice(("gpu", "v100", "a100", "h100", "t4"))
        )

    def part() -> str:
        way = random.randrange(6)
        if way == 0:
            return number(random) + model()
        if way == 1:
            return f"{random.choice(('cpu', 'gpu', 'CPU'))}={number(random)}"
        if way == 2:
            return f"protocol={name(random, 'grpc', 'rdma', 'nccl', 'plain')}"
        job = name(random, "ps", "worker", "chief", "evaluator", "ps", "worker")
        each = f"x{number(random)}{model()}" if random.random() < 0.5 else ""
        return f"{job}={number(random)}{each}"

    return random.choice((",", ",", ",", ", ", ";", " ")).join(
        part() for _ in range(random.choice((1, 1, 2, 2, 3, 40)))
    )


def _toml_value(random: Chance, depth: int = 0) -> str:
    way = random.randrange(9)
    if way < 2:
        return number(random) or "0"
    if way < 5:
        return json.dumps(random.choice((quantity(random), random.choice(NAMES), f"{number(random)} a100")))
    if way == 5:
        return random.choice(("true", "false", "1979-05-27", "07:32:00", "[]", "{}"))
    if depth > 2:
        return "1"
    inner = [_toml_value(random, depth + 1) for _ in range(random.randrange(4))]
    if way == 6:
        return f"[{', '.join(inner)}]"
    return "{ " + ", ".join(f"{random.choice(_KEYS)} = {one}" for one in inner) + " }"


_KEYS = (
    "name", "source", "protocol", "count", "cpu", "cores", "gpus", "pcie", "nic", "loopback", "switches", "nvlink",
    "nvswitch", "sockets", "between_sockets", "job", "task", "host", "cpus", "hosts", "uplink", "type", "memory",
    "compute", "bandwidth", "latency", "launch", "matrix_compute", "nvlinks", "title", "contention", "duplex",
    "between", "request", "send", "receive", "send_per_byte", "receive_per_byte", "threads", "like", "nmae",
)  # fmt: skip
_GOOD = (
    ("host", "gpus", '"2 a100"'), ("host", "count", "2"), ("host", "switches", "[[0, 1]]"),
    ("host", "nic", '{ bandwidth = "100 Gbit/s", latency = "1 us" }'), ("host", "cores", "4"),
    ("host", "nvlink", '[{ between = [0, 1], bandwidth = "50 GB/s" }]'), ("host", "sockets", "[[0], [1]]"),
    ("host", "pcie", '{ bandwidth = "12 GB/s", duplex = "half", contention = "fair" }'),
    ("task", "gpus", "[0]"), ("task", "count", "2"), ("task", "cpus", "2"), ("task", "task", "3"),
    ("rack", "hosts", '["box0"]'), ("rack", "uplink", '{ bandwidth = "40 Gbit/s" }'),
)  # fmt: skip


def toml(random: Chance) -> str:
    """A cluster as TOML, right for the most part."""
    lines = ['name = "ours"'] if random.random() < 0.5 else []
    if random.random() < 0.3:
        lines += ['protocol = "rdma"' if not random.bad else f"{random.choice(_KEYS)} = {_toml_value(random)}"]
    if random.random() < 0.4:
        lines += [
            "[model.mine]",
            'type = "GPU"',
            'memory = "24 GB"',
            'compute = "30 TFLOP/s"',
            'bandwidth = "600 GB/s"',
        ]
        lines += [f"{random.choice(_KEYS)} = {_toml_value(random)}" for _ in range(random.bad)]
    if random.random() < 0.3 and random.bad:
        lines += ["[protocol]", 'like = "grpc"', f"{random.choice(_KEYS)} = {_toml_value(random)}"]
    for section, most in (("host", 3), ("task", 3), ("rack", 2)):
        for nth in range(random.randrange(section == "host", most)):
            lines.append(f"[[{section}]]")
            if section == "host":
                lines.append(f'name = "box{nth}"' if not random.bad else 'name = "box"')
            if section == "task":
                lines += [f'job = "{random.choice(("ps", "worker"))}"', 'host = "box0"']
            known = [good for good in _GOOD if good[0] == section]
            for _, key, value in random.sample(known, random.randrange(min(4, len(known) + 1))):
                lines.append(f"{key} = {_toml_value(random) if random.bad else value}")
    if random.bad and random.random() < 0.2:
        lines.insert(0, f"a = {'[' * random.choice((50, 5000))}")
    return "\n".join(lines)


def tf_config(random: Chance) -> str:
    """TF_CONFIG with values of any shape in any place."""

    def anything(depth: int = 0) -> object:
        way = random.randrange(8)
        if way == 0:
            return random.choice(NAMES)
        if way == 1:
            return random.choice((0, -1, 1.5, 2**70, True, None, 10**400, float("nan")))
        if way == 2 and depth < 3:
            return [anything(depth + 1) for _ in range(random.randrange(4))]
        if way == 3 and depth < 3:
            return {random.choice((*NAMES, *NUMBERS)): anything(depth + 1) for _ in range(random.randrange(3))}
        return random.choice(("a:1", "b:2", "grpc://c:3", ":", "", "[::1]:80", "host"))

    def tasks() -> object:
        if random.random() < 0.3:
            return {number(random): anything() for _ in range(random.randrange(3))}
        return [
            anything() if random.random() < 0.1 else f"h{random.randrange(3)}:{n}" for n in range(random.randrange(5))
        ]

    jobs = {
        random.choice(("ps", "worker", "chief", random.choice(NAMES))): tasks() if random.random() < 0.8 else anything()
        for _ in range(random.randrange(1, 4))
    }
    made: object = {"cluster": jobs if random.random() < 0.9 else anything(), "task": anything()}
    text = json.dumps(made if random.random() < 0.95 else anything())
    if random.random() < 0.1:
        text = text.replace("1", "9" * random.choice((30, 5000)), 1)
    return "[" * 20000 + text if random.random() < 0.02 else text


def costs_text(random: Chance) -> str:
    """Lines node,kind,ns."""
    kinds = ("cpu", "CPU", "/job:ps/replica:0/task:0/device:CPU:0", "/cpu:0")
    lines = ["node,kind,ns"] if random.random() < 0.3 else []
    for _ in range(random.randrange(6)):
        lines.append(f"{name(random, 'x', 'y', 'w')},{name(random, *kinds)},{number(random)}")
    return random.choice(("\n", "\r\n", "\n\n", "\r")).join(lines)
