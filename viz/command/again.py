"""The command that makes a run again, told from its options, so that a page can show what to change."""

from __future__ import annotations

import argparse
import os
import shlex

from viz.command.options import parser

# what is written, told, asked beside the step, or chosen anew
_LEFT_OUT = (
    "help",
    "output",
    "picture",
    "json",
    "check",
    "verbose",
    "quiet",
    "version",
    "against",
    "compare",
    "what_if",
)


def command_again(asked: argparse.Namespace, cluster: str) -> str | None:
    """The command with these options, on the named cluster.

    None where a value is in memory, as from a notebook, or was read from standard input.
    """
    if asked.graph == "-":
        return None  # nobody can read it again
    words = ["simviz"]
    for action in parser()._actions:
        name = action.dest
        value = cluster if name == "cluster" and asked.cluster is None else getattr(asked, name, None)
        value = os.fspath(value) if isinstance(value, os.PathLike) else value  # of Python's callers
        if name in _LEFT_OUT or value == action.default or value is None:
            continue
        option = next((text for text in action.option_strings if text.startswith("--")), "")
        if action.nargs == 0:
            words += [option] if value == action.const else []
        elif not isinstance(value, str | int | float | list):
            return None
        elif not option:
            words.insert(1, str(value))
        elif value is True:
            words.append(option)
        else:
            for one in value if isinstance(value, list) else [value]:
                words.append(f"{option}={one}")
    return shlex.join(words)
