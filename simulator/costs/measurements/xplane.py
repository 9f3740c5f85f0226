"""XPlane: what TensorFlow's profiler writes (`*.xplane.pb`), one plane for the host and one for each GPU.

Source of the form and of its names: `tsl/profiler/protobuf/xplane.proto` and `xplane_schema.cc` of TensorFlow 2.21. It
is read by our own descriptors (decision 0056). A profile stands for several steps.
"""

from __future__ import annotations

from collections.abc import Iterable

from simulator.costs.measured import Sample
from simulator.costs.measurements.chrome_trace import COPY, STREAM
from simulator.costs.measurements.runs import Run, named, samples_of
from simulator.graph.messages import Proto
from simulator.units import Nanos

FORM = "XPlane"
_HOST, _GPU = "/host:CPU", "/device:GPU:"
_TF_OP = "tf_op"  # stat of a kernel: "node:Op"


def of_xspace(message: Proto) -> Iterable[Sample]:
    """The samples of an XSpace."""
    return samples_of(run for plane in message.planes for run in _runs(plane))


def holds_planes(message: Proto) -> bool:
    """Whether a message that was read as an XSpace is one."""
    return any(plane.name.startswith("/") and plane.lines for plane in message.planes)


def _runs(plane: Proto) -> Iterable[Run]:
    if plane.name == _HOST:
        ops = {row: named(one.name) for row, one in plane.event_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                found = ops.get(event.metadata_id)
                if found is not None:
                    yield Run(*found, "CPU", _nanos(event.duration_ps))
    elif plane.name.startswith(_GPU):
        wanted = {row for row, one in plane.stat_metadata.items() if one.name == _TF_OP}
        for line in plane.lines:
            for event in line.events if line.name.startswith(STREAM) else ():
                found = _kernel_of(plane, event, wanted)
                if found is not None:
                    yield Run(*found, plane.name, _nanos(event.duration_ps), kernel=True)


def _kernel_of(plane: Proto, event: Proto, wanted: set[int]) -> tuple[str, str] | None:
    """Node and op of a kernel, by its stat; None for a copy."""
    metadata = plane.event_metadata.get(event.metadata_id)
    if metadata is None or metadata.name.startswith(COPY):
        return None
    for stat in (*event.stats, *metadata.stats):
        if stat.metadata_id in wanted:
            referred = plane.stat_metadata[stat.ref_value].name if stat.ref_value in plane.stat_metadata else ""
            return named(stat.str_value or referred)
    return None


def _nanos(picos: int) -> Nanos:
    return -(-int(picos) // 1000)
