"""Device specifications: "/job:ps/task:1/device:GPU:0" parsed, printed, matched and merged by TensorFlow's C++ rules.

A spec has five fields, each of which may be unset (None): job, replica, task, type and id. A full device name sets all
of them. The rules are those of `tensorflow/core/util/device_name_utils.cc`, which read the `device` field of a NodeDef.
Python's `tf.device` accepts more, and writes names in the canonical form that `str()` gives here.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from simulator.errors import ClusterError, InfeasibleError


class DeviceSpec(NamedTuple):
    """A device name in which any field may be unset. `str()` is TensorFlow's canonical text."""

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    type: str | None = None  # case matters: "cpu" is a type that no device has
    id: int | None = None

    def __str__(self) -> str:
        text = "".join(
            f"/{field}:{value}"
            for field, value in (("job", self.job), ("replica", self.replica), ("task", self.task))
            if value is not None
        )
        if self.type is None:  # an id without a type is not printed
            return text
        return f"{text}/device:{self.type}:{'*' if self.id is None else self.id}"

    def without_device(self) -> DeviceSpec:
        """The same job, replica and task, with type and number open."""
        return self._replace(type=None, id=None)


ANYWHERE = DeviceSpec()
LOCALHOST = "localhost"  # the job of a session without a cluster
LOCAL_TASK = f"/job:{LOCALHOST}/replica:0/task:0"  # its only task
MAX_NUMBER = 2**31 - 1  # TensorFlow keeps replica, task and id in 32-bit integers

_NAME = r"[A-Za-z][A-Za-z0-9_]*"
_COMPONENT = re.compile(
    rf"/job:(?P<job>\*|{_NAME})"
    r"|/(?P<field>replica|task):(?P<number>\*|[0-9]+)"
    rf"|/device:(?P<type>\*|{_NAME})(?::(?P<id>\*|[0-9]+))?"
    r"|/(?P<legacy>cpu|CPU|gpu|GPU):(?P<legacy_id>\*|[0-9]+)"
)


def is_job(text: str) -> bool:
    """Tell whether a device string can name a job so."""
    return re.fullmatch(_NAME, text) is not None


def _number(text: str | None) -> int | None:
    """A decimal number, or None for "*" and for nothing."""
    return None if text is None or text == "*" else int(text)


def _too_large(found: re.Match[str]) -> bool:
    digits = (found["number"] or found["id"] or found["legacy_id"] or "").strip("*").lstrip("0")
    return len(digits) > 10 or int(digits or "0") > MAX_NUMBER


@lru_cache(maxsize=4096)
def parse(text: str) -> DeviceSpec:
    """Read a device string by the rules that TensorFlow's placer applies to `NodeDef.device`.

    Components may come in any order and may be repeated: the last one of a kind wins, and one with "*" unsets its
    field. "" and "/" set no field. "/cpu:0", "/CPU:0", "/gpu:0" and "/GPU:0" are short for "/device:CPU:0" and so on;
    there is no other short form.

    Raises ClusterError for a malformed string, with the place and an example of a good one.

    >>> str(parse("/job:ps/task:1/gpu:0"))
    '/job:ps/task:1/device:GPU:0'
    >>> parse("/device:GPU").id is None
    True
    """
    spec, place = _read(text)
    if place < len(text):
        raise ClusterError(
            f"Malformed device specification {text!r}: cannot read {text[place : place + 40]!r}; "
            'write it like "/job:worker/replica:0/task:1/device:GPU:0", leaving out what is open'
        )
    return spec


def parse_beginning(text: str) -> DeviceSpec:
    """The spec in the part of a device string before the place where it is malformed."""
    return _read(text)[0]


def _read(text: str) -> tuple[DeviceSpec, int]:
    """The spec in a device string, and the place up to which it can be read."""
    fields: dict[str, str | int | None] = {}
    place = 0
    while place < len(text):
        found = _COMPONENT.match(text, place)
        if found is None or _too_large(found):
            break
        place = found.end()
        if found["job"]:
            fields["job"] = None if found["job"] == "*" else found["job"]
        elif found["field"]:
            fields[found["field"]] = _number(found["number"])
        elif found["type"]:
            fields["type"] = None if found["type"] == "*" else found["type"]
            fields["id"] = _number(found["id"])
        else:
            fields["type"] = found["legacy"].upper()
            fields["id"] = _number(found["legacy_id"])
    spec = DeviceSpec(**fields)  # type: ignore[arg-type]  # the pattern's groups give each field its own type
    return spec, len(text) if text == "/" else place


def matches(spec: DeviceSpec, device: DeviceSpec) -> bool:
    """Tell whether the device has the same value in every field that the spec sets; case counts.

    >>> matches(parse("/job:ps/gpu:*"), parse("/job:ps/replica:0/task:3/gpu:1"))
    True
    """
    return all(asked is None or asked == found for asked, found in zip(spec, device, strict=True))


@lru_cache(maxsize=4096)
def compatible(one: DeviceSpec, other: DeviceSpec) -> bool:
    """Tell whether no field is set to different values in both."""
    return all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


@lru_cache(maxsize=4096)
def specialise(spec: DeviceSpec, over: DeviceSpec) -> DeviceSpec:
    """The spec, with the fields that `over` sets taken from `over`."""
    return spec._replace(**{field: value for field, value in over._asdict().items() if value is not None})


@lru_cache(maxsize=4096)
def merge(target: DeviceSpec, other: DeviceSpec, *, soft: bool) -> DeviceSpec:
    """Merge `other` into `target`, field by field; a field that only one of them sets is kept.

    `soft` unsets type and id where the types conflict, and the id where only the ids conflict. Raises InfeasibleError
    where jobs, replicas or tasks conflict, and without `soft` where types or ids do.

    >>> str(merge(parse("/cpu:1"), parse("/cpu:2"), soft=True))
    '/device:CPU:*'
    """
    for field in ("job", "replica", "task"):
        a, b = getattr(target, field), getattr(other, field)
        if a is not None and b is not None and a != b:
            raise _conflict(field, target, other)
    merged = specialise(other, target)
    if target.type is not None and other.type is not None and target.type != other.type:
        if not soft:
            raise _conflict("type", target, other)
        return merged.without_device()
    if target.id is not None and other.id is not None and target.id != other.id:
        if not soft:
            raise _conflict("id", target, other)
        return merged._replace(id=None)
    return merged


def _conflict(field: str, target: DeviceSpec, other: DeviceSpec) -> InfeasibleError:
    return InfeasibleError(f"Cannot merge devices with incompatible {field}s: '{target}' and '{other}'")
