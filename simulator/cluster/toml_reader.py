"""TOML text beside its parsed form: every value is checked where it is read, and an error names its line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from simulator.cluster.topology import MAX_DEVICES
from simulator.errors import ClusterError
from simulator.wording import near

Table: TypeAlias = Mapping[str, Any]  # Any: whatever TOML holds; each value is narrowed where it is read
At: TypeAlias = tuple[str, int, str]  # where a value stands: section, which of that name, key
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*\Z")


class Reader:
    """The text beside its parsed form, so that an error can name the line."""

    def __init__(self, text: str, source: str) -> None:
        self.lines = text.splitlines()
        self.source = source

    def fail(self, message: str, section: str = "", nth: int = 0, key: str = "") -> NoReturn:
        """Raise a ClusterError that names the line of the key."""
        line = self.line(section, nth, key)
        where = f"{self.source}, line {line}" if line else self.source
        raise ClusterError(f"{where}: {message}", line=line)

    def line(self, section: str, nth: int, key: str) -> int | None:
        """Line of a key in the nth table of that name; of the table, which may be inline, if there is no such key."""
        seen, inside, header = -1, not section, None
        for number, raw in enumerate(self.lines, 1):
            stripped = raw.strip()
            if stripped.startswith("["):
                title = stripped.strip("[] \t").split("#")[0].rstrip("] ")
                if title == f"{section}.{key}" and inside:
                    return number
                if title == section:
                    seen += 1
                    inside = seen == nth
                    header = number if inside else header
                elif not (inside and section and title.startswith(section + ".")):
                    inside = False
            elif inside and re.match(rf'"?{re.escape(key)}"?\s*[=.]', stripped):
                return number
            if inside and key and re.search(rf'[{{,.]\s*"?{re.escape(key)}"?\s*=', raw):
                return number
        return self.line("", 0, section) if header is None and section else header

    def keys(self, table: object, allowed: Sequence[str], section: str, nth: int = 0) -> Table:
        """The value as a table that has only keys of `allowed`."""
        if not isinstance(table, dict):
            self.fail(f"{section!r} must be a table", section, nth)
        for key in table:
            if key not in allowed:
                hint = near(key, list(allowed)) or f" Known are {', '.join(allowed)}."
                self.fail(f"unknown key {key!r}{' in ' + section if section else ''}.{hint}", section, nth, key)
        return table

    def tables(self, value: object, name: str) -> list[object]:
        """The value as the tables of [[name]]."""
        if not isinstance(value, list):
            self.fail(f"write [[{name}]], with two brackets: there may be several", name)
        return value

    def name(self, value: object, at: At) -> str:
        """The value as a name of letters, digits and marks within."""
        if not isinstance(value, str) or not _NAME.match(value):
            self.fail(f"{value!r} is not a {at[0]} name", *at)
        return value

    def quantity(self, parse: Callable[[str], int], value: object, at: At) -> int:
        """The value as a quantity with its unit."""
        try:
            if not isinstance(value, str):
                raise ValueError(f"{value!r} needs a unit: write both in quotes")
            return parse(value)
        except ValueError as error:
            self.fail(f"{at[2]}: {error}", *at)

    def count(self, value: object, at: At) -> int:
        """The value as a number of devices, tasks or hosts."""
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= MAX_DEVICES:
            self.fail(f"{at[2]} must be a number from 1 to {MAX_DEVICES}, not {value!r}", *at)
        return value

    def rows(self, value: object, limit: int, at: At) -> tuple[int, ...]:
        """The value as numbers of GPUs below `limit`."""
        if not isinstance(value, list) or not all(type(v) is int and 0 <= v < limit for v in value):
            self.fail(f"{at[2]} must list numbers of GPUs from 0 to {limit - 1}, not {value!r}", *at)
        return tuple(value)

    def groups(self, value: object, limit: int, at: At) -> tuple[tuple[int, ...], ...]:
        """The value as groups of GPUs."""
        if not isinstance(value, list):
            self.fail(f"{at[2]} must be lists of GPU numbers, such as [[0, 1], [2, 3]]", *at)
        return tuple(self.rows(group, limit, at) for group in value)
