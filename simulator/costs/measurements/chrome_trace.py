"""Chrome traces that TensorFlow writes, in JSON: of `timeline.Timeline`, and of its profiler (trace.json).

    Timeline    process "/job:.../device:CPU:0 Compute"    event: category Op, args {"name": node, "op": op}
    profiler    process "/host:CPU", "/device:GPU:0"       event: "node:Op" in args, as long_name or, of a kernel, tf_op

Times are in microseconds: whole ones of a Timeline, fractions of the profiler. The profiler's stand for several steps.
Any: a value of JSON, narrowed where it is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from simulator.costs.measured import Sample
from simulator.costs.measurements.run_metadata import device_of
from simulator.costs.measurements.runs import Run, named, samples_of, without_mkl
from simulator.costs.table import MAX_OP_NS
from simulator.errors import ClusterError
from simulator.json_text import JsonError, parse_json
from simulator.units import Nanos

FORM = "Chrome trace"
_COMPUTE = " Compute"  # behind the device of a Timeline's process
_HOST = "/host:CPU"
_GPU = "/device:GPU:"
STREAM, COPY = "Stream", "Mem"  # beginnings of a stream's name, and of the copies on it, which are no kernels


def of_chrome_trace(text: str, label: str) -> Iterable[Sample]:
    """The samples of a trace. Raises ClusterError for JSON that is cut or damaged, and for a time that is none."""
    try:
        whole = parse_json(text)
    except JsonError as error:
        raise ClusterError(f"{label} begins as JSON, but {error}. Fetch it again", line=error.line) from None
    frames = whole.get("stackFrames") if isinstance(whole, dict) else None
    events = whole.get("traceEvents") if isinstance(whole, dict) else whole
    if not isinstance(events, list):
        return ()
    return samples_of(_runs([one for one in events if isinstance(one, dict)], _mapping(frames), label))


def _runs(events: list[dict[str, Any]], frames: Mapping[str, Any], label: str) -> Iterable[Run]:
    processes, threads = dict[Any, str](), dict[Any, str]()
    for event in events:
        name = str(_mapping(event.get("args")).get("name"))
        if event.get("name") == "process_name":
            processes[_key(event, "pid")] = name
        elif event.get("name") == "thread_name":
            threads[_key(event, "pid", "tid")] = name
    for event in events:
        if event.get("ph") != "X":
            continue
        process = processes.get(_key(event, "pid"), "")
        if process.endswith(_COMPUTE):
            found = _of_timeline(event, process.removesuffix(_COMPUTE))
        else:
            found = _of_profiler(event, process, threads.get(_key(event, "pid", "tid"), ""), frames)
        if found is not None:
            node, op, where, kernel = found
            yield Run(node, op, where, _nanos(event, node, label), kernel)


def _of_timeline(event: Mapping[str, Any], device: str) -> tuple[str, str, str, bool] | None:
    """Node, op, device, and whether it is a kernel; None for what is no op."""
    args, place = _mapping(event.get("args")), device_of(device)
    if place is None or event.get("cat") != "Op" or not isinstance(args.get("name"), str):
        return None
    return args["name"].partition(":")[0], without_mkl(str(args.get("op", ""))), *place


def _of_profiler(
    event: Mapping[str, Any], process: str, thread: str, frames: Mapping[str, Any]
) -> tuple[str, str, str, bool] | None:
    args = _mapping(event.get("args"))
    if process.endswith(_HOST):
        # a long name stands among the stack frames
        name = args.get("long_name", _mapping(frames.get(str(event.get("sf")))).get("name"))
        found = named(name) if isinstance(name, str) else None
        return None if found is None else (*found, "CPU", False)
    at = process.find(_GPU)
    if at < 0 or not thread.startswith(STREAM) or str(event.get("name")).startswith(COPY):
        return None
    found = named(str(args.get("tf_op")))
    return None if found is None else (*found, process[at:].partition(" ")[0], True)


def _nanos(event: Mapping[str, Any], node: str, label: str) -> Nanos:
    took = event.get("dur", 0)
    if isinstance(took, bool) or not isinstance(took, int | float) or not abs(took) <= MAX_OP_NS / 1000:  # NaN: neither
        raise ClusterError(
            f"{label}: {node!r} takes {str(took)[:40]} us, which is no time, so nothing of this {FORM} is used. "
            "Trace a step again"
        )
    return math.ceil(round(took * 1000, 3))  # rounded: 0.1 us has no exact form


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _key(event: Mapping[str, Any], *fields: str) -> tuple[str, ...]:
    return tuple(str(event.get(field)) for field in fields)
