"""The options of `simviz bench`, and the questions that they ask of each graph on each cluster."""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from placement.algorithms import TABLE, searches
from placement.plugins import code_of
from simulator import __version__
from simulator.cluster.description import content_of, load_cluster
from simulator.costs.measurements.reading import read_measurement
from simulator.costs.profile import read_profile
from simulator.errors import SimvizError
from simulator.graph.sources import SAVED_MODEL_FILES
from simulator.instances.recognising import is_instance
from simulator.limits import raised
from simulator.wording import printable
from viz.bench.rows import DIGITS, RowKey, marked
from viz.command.options import (
    Options,
    add_control_flow,
    add_costs,
    add_order,
    add_session,
    add_sizes,
    algorithms,
    parser,
    whole_number,
)
from viz.command.request import Request, read_request
from viz.command.streams import read_once

SUFFIXES = (".pb", ".pbtxt", ".meta")  # of graphs in a folder, with or without .gz
INSTANCES = ".json"  # of instances; other JSON is passed over
_OWN_MACHINES = "its own machines"
DEFAULT_OUTPUT = "bench.csv"
_SUFFIXES = (".csv", ".svg", ".parquet")
_DEFAULT_ALGORITHMS = ("single", "whitepaper", "heft", "search")
_PART_BYTES = 1 << 20
_OWN = ("graphs", "clusters", "algorithms", "budgets", "jobs", "output", "quiet")  # all else is of a step
_EPILOG = f"""\
A graph is a file that ends in {", ".join(SUFFIXES)}, gzipped or not, or the folder of a SavedModel. An instance
in JSON counts, too, and has its own machines. Each graph is placed on each cluster by each algorithm, and simulated.
The rows go into a CSV file as they come. A bench that is run again with the same file asks only what the file does not
know. So a bench that was stopped goes on, and algorithms can be added.

A budget is a number of placements, with which a search repeats, or a time. It matters to algorithms that search.

Where joblib is installed (pip install "simviz[bench]") --jobs runs several graphs and clusters at once.

examples:
  simviz bench graphs/ --cluster 4gpu --cluster ps=2,worker=2x2gpu
  simviz bench graphs/ --cluster 8gpu --algorithms single,heft,search --budget 2000 --budget 20000 --jobs 4
  simviz bench graphs/ --cluster 4gpu --ignore-devices --batch 32 -o rows.csv -o profiles.svg
"""


@dataclass(frozen=True)
class Unit:
    """One graph on one cluster, and what is asked of it: the work of one process at a time."""

    graph: str  # path
    cluster: str
    request: Request
    keys: tuple[RowKey, ...]


@dataclass(frozen=True)
class BenchRequest:
    """A bench as it was asked for."""

    units: tuple[Unit, ...]
    rows: str  # path of the CSV file
    picture: str | None
    table: str | None  # path of the rows as Parquet
    jobs: int
    quiet: bool

    @property
    def order(self) -> dict[RowKey, int]:
        """Key -> its place in the bench."""
        return {key: at for at, key in enumerate(key for unit in self.units for key in unit.keys)}


def bench_parser() -> Options:
    """The options of a bench, with the help that teaches them."""
    made = Options(
        prog="simviz bench",
        description="Place many graphs on many clusters by many algorithms, and tell how they compare.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("graphs", nargs="+", metavar="FOLDER", help="a folder of graphs, or a graph")
    add = made.add_argument_group("the bench").add_argument
    add(
        "--cluster",
        dest="clusters",
        action="append",
        metavar="C",
        help="the machines, as for simviz; repeatable (default: 4gpu)",
    )
    add(
        "--algorithms",
        type=algorithms,
        default=_DEFAULT_ALGORITHMS,
        metavar="A,A,..",
        help=f"the algorithms to compare (default: {','.join(_DEFAULT_ALGORITHMS)})",
    )
    add(
        "--budget",
        dest="budgets",
        action="append",
        metavar="B",
        help="what a search may spend: a number of placements, or a time such as 10s; repeatable (default: as many "
        "placements as take about a second)",
    )
    add("--no-fallback", action="store_true", help="keep plans of papers' algorithms where a single device is faster")
    add("--jobs", type=whole_number, default=1, metavar="N", help="graphs and clusters at once (default: 1)")
    add(
        "-o",
        "--output",
        action="append",
        default=[],
        metavar="FILE",
        help=f"the rows as .csv (default: {DEFAULT_OUTPUT}), at the end also as .parquet, the performance profiles as "
        ".svg; repeatable",
    )
    add("--quiet", action="store_true", help="print no table and no progress")
    step = made.add_argument_group("every step")
    add_sizes(step)
    add_session(step)
    add_costs(step)
    add_order(step)
    add_control_flow(step)
    return made


def read_bench(arguments: Sequence[str]) -> BenchRequest:
    """The questions of a bench, from the arguments of `simviz bench`.

    Raise SimvizError with the option or the folder that is wrong.
    """
    asked = bench_parser().read(arguments)
    if not 1 <= asked.jobs <= 1024:
        raise SimvizError(f"--jobs {asked.jobs}: give a number from 1 to 1,024")
    rows, picture, table = _outputs(asked.output)
    template = _template(asked)
    clusters = tuple(dict.fromkeys(asked.clusters or ["4gpu"]))
    with raised(template.limits):
        for cluster in clusters:  # a mistake is reported before anything takes long
            _check_rereadable(Path(cluster))
            load_cluster(cluster)
        template = read_once(template)
        return BenchRequest(_units(asked, clusters, template), rows, picture, table, asked.jobs, asked.quiet)


def _units(asked: argparse.Namespace, clusters: Sequence[str], template: Request) -> tuple[Unit, ...]:
    """The graphs on the clusters."""
    texts = _step_options(asked, template)
    machines = {cluster: printable(marked(cluster, content_of(cluster))) for cluster in clusters}
    budgets = list(dict.fromkeys(asked.budgets or [""]))
    solvers = {name: name if name in tuple(TABLE) else marked(name, code_of(name)) for name in asked.algorithms}
    units = []
    for name, path in _graphs(asked.graphs):
        content = _digest(path)
        for cluster in clusters if not is_instance(path) else (None,):
            told = machines[cluster] if cluster else _OWN_MACHINES
            keys = tuple(
                RowKey(name, content, told, texts, solvers[algorithm], budget, __version__)
                for algorithm in asked.algorithms
                for budget in (budgets if searches(algorithm) else [""])
            )
            units.append(
                Unit(str(path), cluster or _OWN_MACHINES, replace(template, graph=str(path), cluster=cluster), keys)
            )
    return tuple(units)


def _template(asked: argparse.Namespace) -> Request:
    """The request of a step, whose graph, cluster and algorithm the bench fills in."""
    usual = parser().read(["graph"])
    for name, value in vars(asked).items():
        if name not in _OWN:
            setattr(usual, name, value)
    for budget in asked.budgets or []:
        usual.budget = budget
        read_request(usual)  # a mistake is reported before anything takes long
    usual.budget = None
    return replace(read_request(usual), fallback=not asked.no_fallback)


def _step_options(asked: argparse.Namespace, template: Request) -> str:
    """The options of the step that are not the usual ones, always in the same order; files by name and content."""
    usual = vars(bench_parser().read(["graph"]))
    found = {name: value for name, value in vars(asked).items() if name not in _OWN and value != usual[name]}
    if asked.costs:
        held = [repr(read_measurement(one).samples).encode() for one in template.costs]
        found["costs"] = [marked(name, content) for name, content in zip(asked.costs, held, strict=True)]
    if template.profile is not None:
        found["profile"] = marked(asked.profile, read_profile(template.profile).to_toml().encode())
    return printable(shlex.join(f"{name}={value}" for name, value in sorted(found.items())))


def _outputs(paths: Sequence[str]) -> tuple[str, str | None, str | None]:
    """The file of rows, that of the picture, and that of the rows as Parquet."""
    from viz.formats.output import check_place  # late: it loads much
    from viz.formats.parquet import check_pyarrow

    found: dict[str, str] = {}
    for path in paths:
        suffix = next((suffix for suffix in _SUFFIXES if path.endswith(suffix)), None)
        if suffix is None or suffix in found:
            said = "is a second one of its kind" if suffix else "is none of .csv, .svg and .parquet"
            raise SimvizError(f"-o {path} {said}; a bench writes its rows as .csv and .parquet, and a picture as .svg")
        found[suffix] = path
    rows = found.get(".csv", DEFAULT_OUTPUT)
    for path in {".csv": rows, **found}.values():
        check_place(path)
    if ".parquet" in found:
        check_pyarrow(found[".parquet"])
    return rows, found.get(".svg"), found.get(".parquet")


def _graphs(named: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """(name, path) of each graph: of those in a folder in the order of their names there."""
    seen: set[str] = set()
    for text in named:
        root = Path(text)
        if not os.path.exists(text):  # a name that is too long is none
            raise SimvizError(f"{text}: there is no such file or folder")
        _check_rereadable(root)
        found = list(_under(root))
        if not found:
            raise SimvizError(f"{text}: a folder without a graph, that is a file ending in {', '.join(SUFFIXES)}")
        for path in found:
            name = path.name if path == root else path.relative_to(root).as_posix()
            if name in seen:
                raise SimvizError(f"{path}: a second graph is called {name}; give the folder that holds both")
            seen.add(name)
            yield printable(name), path


def _check_rereadable(path: Path) -> None:
    """Raise SimvizError for a pipe, which ends once, or a device, which may never end."""
    if os.path.exists(path) and not (path.is_file() or path.is_dir()):
        raise SimvizError(f"{path} is a pipe or a device, which can't be read again and again; give a file")


def _under(root: Path) -> Iterator[Path]:
    if root.is_file() or _is_saved_model(root):
        yield root
        return
    for folder, below, files in os.walk(root, onerror=_refuse):
        here = Path(folder)
        models = [name for name in below if _is_saved_model(here / name)]
        below[:] = sorted(name for name in below if name not in models and not name.startswith("."))
        graphs = [name for name in files if not name.startswith(".") and _is_graph(here / name)]
        yield from (here / name for name in sorted([*models, *graphs]))


def _refuse(error: OSError) -> NoReturn:
    """Raise SimvizError for a folder that can't be looked into: what it holds would be missing without a word."""
    raise SimvizError(f"{error.filename} cannot be looked into: {error.strerror}")


def _is_graph(path: Path) -> bool:
    name = path.name.removesuffix(".gz")
    return name.endswith(SUFFIXES) or (name.endswith(INSTANCES) and is_instance(path))


def _is_saved_model(folder: Path) -> bool:
    try:
        return any((folder / name).is_file() for name in SAVED_MODEL_FILES)
    except OSError as error:
        raise SimvizError(f"{folder} cannot be looked into: {error.strerror}") from None


def _digest(path: Path) -> str:
    """The beginning of the SHA-256 of a graph's file."""
    if path.is_dir():
        path = next(path / name for name in SAVED_MODEL_FILES if (path / name).is_file())
    _check_rereadable(path)
    try:
        with path.open("rb") as stream:
            made = hashlib.sha256()
            while part := stream.read(_PART_BYTES):
                made.update(part)
            return made.hexdigest()[:DIGITS]
    except OSError as error:
        raise SimvizError(f"{path} cannot be read: {error.strerror}") from None
