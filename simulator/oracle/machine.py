"""The devices and versions of this machine as its TensorFlow sees them, asked in a child process.

Counting GPUs takes a session.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from glob import glob
from pathlib import Path
from typing import Any

from simulator.oracle import child
from simulator.oracle.session import configuration, prepare

TIMEOUT_S = 120.0  # TensorFlow's import, and the start of every GPU
_SMI_TIMEOUT_S = 20
_DEVICE_FILES = ("/dev/nvidia[0-9]*", "/dev/dxg")  # of NVIDIA's driver, and of its stand-in under Windows


@dataclass(frozen=True, slots=True)
class Machine:
    """The versions and devices that TensorFlow finds on its machine."""

    tensorflow: str  # version
    cuda: str | None  # version for which this TensorFlow was built; None: for none
    cudnn: str | None
    driver: str | None  # version of NVIDIA's driver, as nvidia-smi prints it
    gpus: tuple[str, ...]  # model and compute capability of each that TensorFlow uses
    processor: str
    cores: int
    devices: tuple[tuple[str, str, int], ...]  # of a session: full name, type, memory limit in bytes


def machine(cpus: int = 1, *, timeout_s: float = TIMEOUT_S) -> Machine:
    """Ask for the devices of a session with `cpus` CPU devices and every GPU, and for the versions behind them.

    Raises OracleError if TensorFlow is missing, fails or takes longer than `timeout_s`.
    """
    reply, _ = child.unpack(child.run("simulator.oracle.machine", child.pack({"cpus": cpus}), timeout_s=timeout_s))
    devices = tuple((name, kind, memory) for name, kind, memory in reply.pop("devices"))
    return Machine(**{**reply, "gpus": tuple(reply["gpus"]), "devices": devices})


@lru_cache(maxsize=1)
def gpus() -> int:
    """The number of GPUs of a session here; TensorFlow is asked, once, only where a driver has left its files."""
    if not any(glob(pattern) for pattern in _DEVICE_FILES):
        return 0
    return sum(kind == "GPU" for _, kind, _ in machine().devices)


# --- in the child process --------------------------------------------------------------------------------------------


def answer(payload: bytes) -> bytes:
    """The fields of a Machine; asked: `cpus`, how many CPU devices."""
    facts, _ = child.unpack(payload)
    prepare(gpus=True)
    return child.pack(_machine(facts["cpus"]))


def _machine(cpus: int) -> dict[str, Any]:
    import tensorflow as tf

    physical = tf.config.list_physical_devices("GPU")
    config = configuration(soft=True)
    config.device_count.update({"CPU": cpus})
    with tf.compat.v1.Session(graph=tf.Graph(), config=config) as session:
        devices = [(one.name, one.device_type, one.memory_limit_bytes) for one in session.list_devices()]
    built = tf.sysconfig.get_build_info()
    return {
        "tensorflow": tf.__version__,
        "cuda": built.get("cuda_version"),
        "cudnn": built.get("cudnn_version"),
        "driver": driver(),
        "gpus": [_model(tf.config.experimental.get_device_details(one)) for one in physical],
        "processor": processor(),
        "cores": os.cpu_count() or 0,
        "devices": devices,
    }


def _model(details: Mapping[str, Any]) -> str:
    capability = ".".join(map(str, details.get("compute_capability", ())))
    return f"{details.get('device_name', 'a GPU')}, compute capability {capability or 'unknown'}"


def driver() -> str | None:
    """The version of NVIDIA's driver; None where there is no nvidia-smi or it finds none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SMI_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):  # a driver that does not work has no version
        return None
    return done.stdout.strip().partition("\n")[0] or None


def processor() -> str:
    """The model of this machine's processor, as the system names it."""
    described = Path("/proc/cpuinfo")
    for line in described.read_text(encoding="utf-8").splitlines() if described.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def cache_bytes(core: int) -> int:
    """Bytes of the largest cache that a core has for itself, as Linux tells; a megabyte where it does not."""
    for described in Path(f"/sys/devices/system/cpu/cpu{core}/cache").glob("index*"):
        level, size = (_line(described / name) for name in ("level", "size"))
        if level == "2" and size[:-1].isdecimal() and size[-1] in _UNITS:
            return max(1, int(size[:-1]) * _UNITS[size[-1]])
    return _USUAL_BYTES


_UNITS = {"K": 2**10, "M": 2**20}
_USUAL_BYTES = 2**20


def _line(file: Path) -> str:
    """The text of a file of one line; "" where there is none."""
    return file.read_text(encoding="utf-8").strip() if file.exists() else ""


if __name__ == "__main__":
    child.serve(answer)
