"""Where the command begins and ends: whoever stops it while it loads is told so in a line, as later.

What Python does before this module is loaded, and after `main` has returned, is its own.
"""

from __future__ import annotations

import signal
import sys

INTERRUPTED = 130  # as a shell says of what SIGINT ended


def main() -> int:
    """Load the command and run it; return the exit code."""
    try:
        from viz.cli import main as command

        return command()
    except KeyboardInterrupt as stop:
        print(f"simviz: interrupted; {str(stop) or 'nothing was written'}", file=sys.stderr)
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # all is said: to free memory is not worth a traceback
