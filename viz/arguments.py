"""The command line's reader: what is wrong with an option is one sentence with the nearest name, as other errors are.

Options are written out in full: an abbreviation in somebody's script would change its meaning with the next new option.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from simulator.errors import SimvizError
from simulator.wording import meant, near

_HELP = "simviz --help explains all options."


class Arguments(argparse.ArgumentParser):
    """An ArgumentParser that raises SimvizError instead of printing its usage and ending the process."""

    def __init__(self, prog: str, description: str, epilog: str) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def read(self, arguments: Sequence[str] | None = None) -> argparse.Namespace:
        """The options, of the process without `arguments`. Raises SimvizError with the one that is wrong."""
        asked, left = self.parse_known_args(arguments)
        if left:
            self.error(self._unknown(left))
        return asked

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong as a sentence; argparse's own begin with "argument"."""
        said = message.removeprefix("argument ").rstrip(".")
        raise SimvizError(f"{said}{'' if said.endswith('?') else '.'} {_HELP}")

    def _unknown(self, left: Sequence[str]) -> str:
        unknown = next((text for text in left if text.startswith("-") and len(text) > 1), None)
        if unknown is None:
            return f"{left[0]!r} is a second graph: give one, and each option's value right behind it"
        name = unknown.partition("=")[0]
        known = [option for option in self._option_string_actions if option.startswith("--")]
        longer = [option for option in known if option.startswith(name)]
        return f"There is no option {name}.{meant(longer) if longer else near(name, known)}"

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse what is not among an option's choices; argparse has no public place to say it in other words."""
        if action.choices is None or value in action.choices:
            return
        names = [str(choice) for choice in action.choices]
        said = f"there is no {value!r}; choose one of {', '.join(names)}.{near(str(value), names)}"
        raise argparse.ArgumentError(action, said)


def whole_number(text: str) -> int:
    """Read an option's number. Raises argparse.ArgumentTypeError, of which argparse makes an error of the option."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
