"""Memory that arrays leave serves the next ones, so the system need not hand it out anew."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

CODE = """
import resource
from viz.command.cli import keep_freed_memory
{first}
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    bytearray(40_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another library of C")
def test_what_is_freed_is_not_asked_for_again() -> None:
    def faults(first: str) -> int:
        return int(
            subprocess.run([sys.executable, "-c", CODE.format(first=first)], capture_output=True, check=True).stdout
        )

    assert faults("keep_freed_memory()") < faults("") / 4
