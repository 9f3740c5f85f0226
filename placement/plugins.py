"""Algorithms of other packages: entry points of the group `simviz.algorithms`, loaded when the user names one.

[project.entry-points."simviz.algorithms"]
mine = "my_package.my_module:my_function"
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.errors import SimvizError
from simulator.wording import choices, some

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "simviz.algorithms"


def offered() -> dict[str, list[EntryPoint]]:
    """The entry points by name, sorted; those of one name by package. Nothing of any package is imported."""
    from importlib.metadata import entry_points  # only now: it takes some 30 ms, and most runs need none

    found: dict[str, list[EntryPoint]] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, _package(entry), entry.value)):
        same = found.setdefault(entry.name, [])
        if (entry.value, _package(entry)) not in [(other.value, _package(other)) for other in same]:
            same.append(entry)
    return found


def described(own: Collection[str]) -> list[str]:
    """A line for each algorithm that packages offer; `own` are the names of simviz's, which no package can take."""
    lines = []
    for name, entries in offered().items():
        packages = some([_package(entry) for entry in entries])
        said = "hidden: simviz has its own" if name in own else f"of {packages}"
        if len(entries) > 1 and name not in own:
            said = f"of several packages, none of which can be chosen: {packages}"
        lines.append(f"{name:<28} {said}")
    return lines


def find(name: object, own: Collection[str]) -> Callable[..., Any]:
    """The algorithm that a package offers under that name; Any: what it makes is checked when it has run.

    Raises SimvizError where none or several offer it, and where it cannot be loaded or called.
    """
    entries = offered()
    found = entries.get(name, []) if isinstance(name, str) else []
    if not found:
        names = [*own, *(other for other in entries if other not in own)]
        raise SimvizError(f"There is no algorithm {name!r}; choose one of {choices(name, names)}")
    if len(found) > 1:
        packages = " and ".join(_package(entry) for entry in found)
        raise SimvizError(f"The algorithm {name!r} is offered by {packages}: uninstall one of them.")
    entry = found[0]
    whose = f"The algorithm {name!r} of the package {_package(entry)} ({entry.value})"
    try:
        algorithm = entry.load()
    except Exception as error:  # importing a package may raise anything
        raise SimvizError(f"{whose} cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(algorithm):
        raise SimvizError(f"{whose} is no function but a {type(algorithm).__name__}.")
    return algorithm  # type: ignore[no-any-return]  # callable, as was just seen


def code_of(name: str) -> bytes | None:
    """The Python code of the package that offers an algorithm; None where no one package does, or it holds none.

    It is all code below the outermost package of the algorithm's module, in the order of the paths. Nothing is
    imported.
    """
    entries = offered().get(name, [])
    if len(entries) != 1:
        return None
    try:
        spec = find_spec(entries[0].module.partition(".")[0])
        folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
        alone = [Path(spec.origin)] if spec and spec.origin and not folders else []
        files = [*alone, *(path for folder in folders for path in sorted(folder.rglob("*.py")))]
        return b"".join(path.name.encode() + b"\0" + path.read_bytes() for path in files) or None
    except (ImportError, ValueError, OSError):  # whoever loads it says why it can't be
        return None


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "an unnamed package"
