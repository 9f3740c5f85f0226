"""A folder in which ops may write, deleted whatever happens to this process.

An exception or Ctrl-C ends the block, and with it the folder. A process that is killed outright ends no block, so a
second one waits for its end. A pipe reports the kill of a process most surely: its other end closes.

    this process ── a pipe, nothing written ──▶ sh: read to the end, delete the folder
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from simulator.errors import OracleError

# a second time, as what is killed with this process may write for a moment longer
_DELETE = 'cat; rm -rf "$0" 2>/dev/null || { sleep 1; rm -rf "$0"; }'


@contextmanager
def scratch_folder() -> Iterator[str]:
    """An empty folder for as long as the block lasts. Raise OracleError where the system refuses a process."""
    with tempfile.TemporaryDirectory(prefix="simviz-") as folder:
        try:
            # a session of its own, so that what a terminal sends to all processes does not end it
            waiting = subprocess.Popen(
                ["/bin/sh", "-c", _DELETE, folder], stdin=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            raise OracleError(f"no process could be started to clean up ({error.strerror})") from None
        with waiting:  # its end closes the pipe and waits
            yield folder
