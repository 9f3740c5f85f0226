"""The C++ twin of the compiled engine: compiled here where there is a compiler, and handed the same arrays."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from simulator.execution.layouts import FlatTables

SOURCE = Path(__file__).with_suffix(".cpp")
FLAGS = ("-std=c++17", "-O3", "-march=native", "-shared", "-fPIC")
REFUSALS = {
    -2: "an op has no kernel on its device",
    -3: "two devices have no way",
    -4: "its times cannot be counted",
    -5: "ops wait for each other",
}
# The struct in C++: lengths, then columns of `FlatTables`.
_COLUMNS = (
    *("block", "group_ptr", "group_edge", "edge_tensor", "consumer", "reader", "host", "waits", "roots", "instant"),
    *(
        "kind_ns",
        "tensor_bytes",
        "post",
        "stays",
        "replicable",
        "lanes",
        "cpu",
        "kind",
        "home",
        "route_between",
        "latency_ns",
    ),
    *(
        "bytes_per_s",
        "capacity",
        "held_ptr",
        "held",
        "even",
        "in_ptr",
        "in_edge",
        "tensor_ptr",
        "tensor_op",
        "tensor_edge",
        "passes",
        "bound",
    ),
    *("scratch_bytes", "resident_bytes"),
)
_LENGTHS = ("ops", "tensors", "edges", "devices", "kinds", "ways", "links", "root_count", "pulls", "merges")


class _Struct(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_int64) for name in _LENGTHS), *((name, ctypes.c_void_p) for name in _COLUMNS)]


def compiler() -> str | None:
    """The C++ compiler of this machine."""
    return shutil.which("g++") or shutil.which("clang++")


def library() -> ctypes.CDLL | None:
    """The twin, compiled; None where there is no C++ compiler."""
    program = compiler()
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "twin.so"
        subprocess.run([program, *FLAGS, "-o", made, SOURCE], check=True)
        found = ctypes.CDLL(str(made))
    for name, result, count in (
        ("made", ctypes.c_void_p, 1),
        ("makespan", ctypes.c_int64, 2),
        ("record", ctypes.c_int64, 2),
        ("tell", None, 3),
        ("dropped", None, 1),
    ):
        function = getattr(found, f"twin_{name}")
        function.restype, function.argtypes = result, [ctypes.c_void_p] * count
    return found


class Twin:
    """One step, ready for many assignments; keeps the arrays and the C++ object that reads them."""

    def __init__(self, made: ctypes.CDLL, laid: FlatTables) -> None:
        self._made, self._laid = made, laid
        known = {**laid.nodes._asdict(), **laid.places._asdict(), **laid.held._asdict(), **laid.shared._asdict()}
        self._block = laid.held.tensor_edge[laid.held.tensor_ptr]  # first edge of each op
        known["block"] = self._block
        nodes, places = laid.nodes, laid.places
        lengths = (
            *(
                len(nodes.waits),
                len(nodes.tensor_bytes),
                len(nodes.consumer),
                len(places.lanes),
                nodes.kind_ns.shape[1],
            ),
            *(
                len(places.latency_ns),
                len(laid.shared.capacity),
                len(nodes.roots),
                int(places.posts[0] or places.requests[0]),
                int(nodes.merges[0]),
            ),
        )
        columns = (known[name].ctypes.data for name in _COLUMNS)
        self._twin = made.twin_made(ctypes.byref(_Struct(*lengths, *columns)))

    def __del__(self) -> None:
        self._made.twin_dropped(self._twin)

    def makespan(self, device: npt.NDArray[np.int32]) -> int:
        """The makespan alone."""
        return self._checked(self._made.twin_makespan(self._twin, device.ctypes.data))

    def record(self, device: npt.NDArray[np.int32]) -> tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The makespan, when each op started [n], and each device's peak in bytes [D]."""
        makespan = self._checked(self._made.twin_record(self._twin, device.ctypes.data))
        starts, peaks = (
            np.empty(len(self._laid.nodes.waits), np.int64),
            np.empty(len(self._laid.places.lanes), np.int64),
        )
        self._made.twin_tell(self._twin, starts.ctypes.data, peaks.ctypes.data)
        return makespan, starts, peaks

    @staticmethod
    def _checked(told: int) -> int:
        if told < 0:
            raise RuntimeError(f"the twin does not run the step: {REFUSALS[told]}")
        return told
