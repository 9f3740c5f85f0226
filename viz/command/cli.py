"""The command: from arguments to files, a summary and an exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from simulator.errors import SimvizError
from simulator.observed import SUFFIX
from simulator.progress import Say
from viz.command.ending import ended
from viz.command.options import parser
from viz.command.terminal import complain, print_json, progress, tell

if TYPE_CHECKING:
    import argparse

    from viz.command.request import Request
    from viz.scene import Scene

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # options of glibc's mallopt
_ENDLESS = 2**31 - 1


def main(
    arguments: Sequence[str] | None = None,
    *,
    begin: Callable[[], None] = lambda: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> int:
    """Run the command; return the exit code. A KeyboardInterrupt carries the names of files that were written before.

    `begin` is called when all modules are loaded and the work begins; until then the process may end at any moment.
    `interrupted` tells whether a signal was to end the work since, of which C code may have made another error.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["bench"]:
        from viz.bench.command import run_command  # late: it loads much

        return run_command(given[1:], begin, interrupted)
    written: list[str] = []
    made = parser()
    try:
        asked = made.read(given)
        if asked.graph is None and not asked.warm_up and not asked.version and asked.calibrate is None:
            made.error("name a graph: a file, a SavedModel folder, or - for standard input")
    except SimvizError as error:
        complain(str(error))
        return 2

    def work() -> int:
        if asked.version:
            from simulator import __version__

            tell(f"simviz {__version__}")
            return 0
        if asked.calibrate is not None:
            return _calibrate(asked, begin)
        return _warm_up(begin) if asked.warm_up else _run(asked, written, begin)

    # a run makes millions of objects and hardly a cycle: the search for cycles took a tenth of its time
    gc.disable()
    keep_freed_memory()
    try:
        return ended(work, asked.graph, written, interrupted)
    except KeyboardInterrupt:
        gc.freeze()  # else Python looks for cycles among millions of objects before anything is said
        raise
    finally:
        gc.enable()


def keep_freed_memory() -> None:
    """Let glibc keep what arrays leave for the next ones, for all threads: what goes back comes anew, page by page.

    Another library of C stays as it is.
    """
    from ctypes import CDLL  # late: the call may be wrong

    try:
        change = CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl and macOS have none, and Windows no library of this name
        return
    for option, value in ((_TRIM_THRESHOLD, _ENDLESS), (_MMAP_THRESHOLD, _ENDLESS), (_ARENA_MAX, 1)):
        change(option, value)


def _warm_up(begin: Callable[[], None]) -> int:
    from simulator.execution.choosing import STEP, TRAINING, telling, warm_up

    begin()
    try:
        with progress(quiet=False) as say, telling(say):
            said = [warm_up(loop) for loop in (STEP, TRAINING)]
            say("compiling what a search needs")
            for module in ("simulator.bounds.compiled", "placement.search.compiled"):
                import_module(module)  # which compiles it, and keeps it where the loops are kept
    except SimvizError as error:
        complain(str(error))
        return 1
    tell("\n".join(sentence for _, sentence in said))
    return 0 if all(kept for kept, _ in said) else 1


def _calibrate(asked: argparse.Namespace, begin: Callable[[], None]) -> int:
    """Measure this machine and write its profile."""
    if asked.graph is not None:
        raise SimvizError(f"--calibrate measures this machine and ends; leave out {asked.graph}")
    from simulator.oracle.calibration import calibrate
    from viz.formats.output import check_place

    check_place(asked.calibrate)
    begin()
    with progress(asked.quiet) as say:
        profile = calibrate(say)
    profile.write(asked.calibrate)
    if not asked.quiet:
        from simulator.costs.profile import summary

        tell(f"{summary(profile)}\nWrote {asked.calibrate}.")
    return 0


def _outputs(asked: argparse.Namespace) -> list[tuple[str, str]]:
    """(path, suffix) of each file to draw; raise SimvizError if one could not be written later."""
    from viz.formats.drawing import FOLDERS
    from viz.formats.output import check_loses_nothing, check_place, check_suffix
    from viz.pictures.look import read_look

    paths = list(asked.output)
    if not paths and asked.json is None:
        paths = [_default_name(asked.graph, ".html")]
    if isinstance(asked.observe, str):
        paths.append(asked.observe)
    elif asked.observe and not any(path.endswith(SUFFIX) for path in paths):
        paths.append(_default_name(asked.graph, SUFFIX))
    found = [(path, check_suffix(path)) for path in dict.fromkeys(paths)]
    for path, suffix in found:
        check_place(path, folder=suffix in FOLDERS)
        check_loses_nothing(path, asked.graph, asked.json)
    _check_json(asked)
    read_look(asked.picture)  # a mistake is reported before anything takes long
    return found


def _check_json(asked: argparse.Namespace) -> None:
    """Raise SimvizError if --json could not be written later."""
    from viz.formats.output import check_place

    if asked.json == "-" and sys.stdout is None:  # started with it closed
        raise SimvizError("--json -: standard output is closed; give a file")
    if asked.json not in (None, "-"):
        check_place(asked.json)


def _default_name(graph: str, suffix: str) -> str:
    """The file name with another last suffix, in the current folder."""
    name = os.path.basename(os.path.normpath(graph))
    stem = os.path.splitext(name)[0] if graph != "-" and name not in ("", ".", "..") else "graph"
    return f"{stem}{suffix}"


def _run(asked: argparse.Namespace, written: list[str], begin: Callable[[], None]) -> int:
    """Run a request; `written` receives the path of each finished file."""
    from viz.command.request import read_request

    request = read_request(asked)
    if asked.compare is not None:
        return _compare(request, asked, written, begin)
    outputs = _outputs(asked)
    from dataclasses import replace

    from simulator.execution.choosing import telling  # late: it loads much, and the request may be wrong
    from viz.command.again import command_again
    from viz.command.running import run

    begin()
    with progress(asked.quiet) as say, telling(say):
        scene = run(replace(request, writes=tuple([suffix for _, suffix in outputs])), say)
        scene = replace(scene, command=command_again(asked, scene.cluster.name))
        drawn = [one for one in outputs if one[1] != SUFFIX or scene.unobserved is None]
        _write(scene, asked, drawn, say, written)
    if not asked.quiet and asked.json != "-":
        from viz.command.summary import summarise

        tell(summarise(scene, verbose=asked.verbose, written=written))
    return _verdict(scene)


def _compare(request: Request, asked: argparse.Namespace, written: list[str], begin: Callable[[], None]) -> int:
    """Run all algorithms of --compare and print the table; 1 if a check fails, or if none gives a plan that fits."""
    _check_json(asked)
    from simulator.execution.choosing import telling
    from viz.command.running import candidates
    from viz.difference.scores import as_json, as_text
    from viz.formats.output import write

    begin()
    with progress(asked.quiet) as say, telling(say):
        table = candidates(request, asked.compare, say)
    if asked.json == "-":
        print_json(as_json(table))
    elif asked.json is not None:
        write(asked.json, as_json(table).encode("utf-8"))
        written.append(asked.json)
    if not asked.quiet and asked.json != "-":
        tell(as_text(table, verbose=asked.verbose))
    failed = any(entry.failed for entry in table.entries)
    return 1 if failed or not any(entry.good for entry in table.entries) else 0


def _write(
    scene: Scene,
    asked: argparse.Namespace,
    outputs: list[tuple[str, str]],
    say: Say,
    written: list[str],
) -> None:
    """Draw everything first and write afterwards, so that a failure leaves the files as they were."""
    from viz.formats.drawing import draw
    from viz.formats.json_object import to_json
    from viz.formats.output import write
    from viz.pictures.look import read_look

    contents, look = [], read_look(asked.picture)
    for path, suffix in outputs:
        say(f"drawing {os.path.basename(path)}")
        contents.append((path, draw(scene, suffix, look)))
    if asked.json is not None:
        text = to_json(scene)
        if asked.json == "-":
            print_json(text)
        else:
            contents.append((asked.json, text.encode("utf-8")))
    for path, content in contents:
        write(path, content)
        written.append(path)


def _verdict(scene: Scene) -> int:
    """1 if the plan does not fit or TensorFlow does something else, else 0."""
    from viz.agreement import failures, unlike_shown

    if scene.out_of_memory is not None:
        complain(str(scene.out_of_memory))
        return 1
    if scene.unobserved is not None:
        complain(f"no step was observed: {scene.unobserved}")
    check = scene.check
    if check is None:
        return 0 if scene.unobserved is None else 1
    if other := unlike_shown(check):
        complain(f"the check asked about another {' and another '.join(other)} than is shown; --verbose says how")
    failed = failures(check)
    if failed:
        complain(f"the check failed: {'; '.join(failed)}")
    return 1 if failed or scene.unobserved is not None else 0
