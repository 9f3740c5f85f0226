"""Write the data file of graph/registry.py from the registries of ops and kernels of the installed TensorFlow.

Called as `python -m simulator.oracle.registries [-o FILE]`.

The full Linux wheel lists its GPU kernels on a machine without a GPU, too. The `tensorflow-cpu` wheel does not have
them: its file would say that nothing runs on a GPU, so it is refused.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simulator.errors import OracleError
from simulator.files import replace_file
from simulator.graph import registry
from simulator.graph.ops import plain

_DEVICES = {"CPU": "C", "GPU": "G", "DEFAULT": "D"}
_FEWEST_GPU_KERNELS = 1000  # 2.21 registers 5,017; a wheel without GPU support a few dozen


def collect() -> tuple[list[Any], list[Any], str]:
    """Ask TensorFlow for all OpDefs, all KernelDefs and its version; raise OracleError without GPU kernels."""
    try:
        import tensorflow as tf
        from tensorflow.core.framework import op_def_pb2
        from tensorflow.python.client import pywrap_tf_session
        from tensorflow.python.framework import kernels
    except ImportError as problem:
        raise OracleError(f"TensorFlow cannot be imported ({problem}). Install the `tensorflow` wheel.") from problem
    listed = op_def_pb2.OpList.FromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    registered = list(kernels.get_all_registered_kernels().kernel)
    refuse_without_gpu(registered, str(tf.__version__))
    return list(listed.op), registered, str(tf.__version__)


def refuse_without_gpu(kernels: Sequence[Any], version: str) -> None:
    """Raise OracleError if there are too few GPU registrations for a full wheel."""
    gpu = sum(kernel.device_type == "GPU" for kernel in kernels)
    if gpu < _FEWEST_GPU_KERNELS:
        raise OracleError(
            f"TensorFlow {version} lists only {gpu} GPU kernels: this is the tensorflow-cpu wheel or a build without "
            "GPU support. Install the full `tensorflow` wheel for Linux."
        )


def encode(ops: Sequence[Any], kernels: Sequence[Any], version: str) -> bytes:
    """The data file: the same bytes for the same registries."""
    by_op: dict[str, list[Any]] = {}
    for kernel in kernels:
        if kernel.device_type in _DEVICES:
            by_op.setdefault(kernel.op, []).append(kernel)
    ordered = sorted(ops, key=lambda op: op.name)
    kept = sum(len(by_op.get(op.name, ())) for op in ordered)
    # kernels: the registrations kept, those for CPU, GPU and DEFAULT; listed: those of all device types
    head = {"tensorflow": version, "ops": len(ordered), "kernels": kept, "listed": len(kernels)}
    lines = [_json(head)]
    lines += [f"{op.name}\t{_json(_op(op, by_op.get(op.name, ())))}" for op in ordered]
    return gzip.compress("\n".join(lines).encode(), compresslevel=9, mtime=0)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _op(op: Any, kernels: Sequence[Any]) -> dict[str, object]:
    held = [_host_variant(argument.experimental_full_type) for argument in op.output_arg]
    return {
        "h": next((attr for attr in held if attr), ""),
        "i": [_argument(argument) for argument in op.input_arg],
        "o": [_argument(argument) for argument in op.output_arg],
        "a": {attr.name: attr.type for attr in op.attr},
        "d": {attr.name: plain(attr.default_value) for attr in op.attr if attr.HasField("default_value")},
        "s": int(op.is_stateful),
        "k": sorted((_kernel(kernel) for kernel in kernels), key=_json),
    }


def _host_variant(given: Any) -> str:
    """`OpFacts.host_variant` of an output, from its full type (tensorflow/core/framework/full_type_util.h)."""
    from tensorflow.core.framework import full_type_pb2 as full

    if given.type_id in {full.TFT_DATASET, full.TFT_MUTEX_LOCK, full.TFT_STRING}:
        return "*"
    if given.type_id == full.TFT_VAR:
        return str(given.s)
    holds = {full.TFT_TENSOR, full.TFT_ARRAY, full.TFT_RAGGED, full.TFT_OPTIONAL, full.TFT_FOR_EACH, full.TFT_PRODUCT}
    return next(filter(None, map(_host_variant, given.args)), "") if given.type_id in holds else ""


def _argument(argument: Any) -> list[object]:
    """The fields of registry.Argument in order, without the empty ones at the end."""
    fields = [argument.name, argument.type, argument.type_attr, argument.number_attr, argument.type_list_attr]
    fields.append(argument.is_ref)
    while len(fields) > 1 and not fields[-1]:
        fields.pop()
    return fields


def _kernel(kernel: Any) -> list[object]:
    constraints = sorted((constraint.name, plain(constraint.allowed_values)) for constraint in kernel.constraint)
    return [
        _DEVICES[kernel.device_type],
        kernel.label,
        kernel.priority,
        sorted(set(kernel.host_memory_arg)),
        constraints,
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the file named by `-o`; by default one beside the shipped file, named after TensorFlow's version."""
    parser = argparse.ArgumentParser(
        prog="python -m simulator.oracle.registries", description=(__doc__ or "").split(":")[0]
    )
    parser.add_argument("-o", type=Path, metavar="FILE", dest="file")
    chosen = parser.parse_args(arguments)
    ops, kernels, version = collect()
    replace_file(chosen.file or registry.file_of(version), encode(ops, kernels, version))


if __name__ == "__main__":
    main()
