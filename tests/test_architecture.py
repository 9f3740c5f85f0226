"""The shape of the code: floors, TensorFlow's one door, no import cycle, sizes, docstrings, nothing swallowed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from placement.algorithms import TABLE
from simulator.execution.choosing import STEP, TRAINING

ROOT = Path(__file__).parents[1]
FLOORS = ("simulator", "placement", "viz")  # each may import those before it, none those after
# Within simulator: what a room may import besides itself and the plain modules at the top.
ROOMS = {
    "simulator.graph": set(),
    "simulator.cluster": {"simulator.graph"},
    "simulator.shapes": {"simulator.graph"},
    "simulator.costs": {"simulator.graph", "simulator.cluster"},
    "simulator.instances": {"simulator.graph", "simulator.cluster", "simulator.costs"},
    "simulator.placer": {"simulator.graph", "simulator.cluster"},
    "simulator.partitioning": {"simulator.graph", "simulator.cluster", "simulator.placer"},
    "simulator.observed": {"simulator.graph", "simulator.shapes", "simulator.cluster", "simulator.costs"},
    "simulator.execution": {
        "simulator.graph",
        "simulator.shapes",
        "simulator.observed",
        "simulator.cluster",
        "simulator.costs",
        "simulator.partitioning",
    },
    "simulator.training": {
        "simulator.graph",
        "simulator.shapes",
        "simulator.cluster",
        "simulator.costs",
        "simulator.partitioning",
        "simulator.execution",
    },
    "simulator.oracle": {
        "simulator.graph",
        "simulator.shapes",
        "simulator.cluster",
        "simulator.costs",
        "simulator.observed",
        "simulator.partitioning",
    },
}
HEAVY = ("tensorflow", "llvmlite", "networkx")  # never loaded by an import of the product
COMPILED = (
    "simulator.bounds.compiled",
    "placement.search.compiled",
    "placement.search.moves",
    "simulator.execution.compiled.",
    "simulator.training.control.compiled",
)  # rooms that are compiled, themselves imported inside functions
KERNEL = "simulator.execution.compiled.kernel"
MAX_FILE, MAX_FUNCTION, MOST_FUNCTIONS = 300, 60, 20  # lines; nine of ten functions are at most MOST_FUNCTIONS long

# What may be longer, and why.
LONG_FILES: dict[str, str] = {
    "simulator.costs.likeness": "one question, what a kernel takes that was never measured, and each way to answer it",
    "simulator.execution.compiled.translation": "one walk over Python's syntax, a method for each kind of node",
    "simulator.graph.editor": "one class: nodes, edges in TensorFlow's order, and the graph that they make",
    "simulator.cluster.toml_file": "one file format with all its tables, each value checked where it is read",
    "simulator.cluster.cluster": "one class: devices, links, and all that is asked of a pair of devices",
    "simulator.cluster.topology": "the links and routes of every kind of wire between two devices",
    "simulator.costs.rules": "it is the cost table, a row for each kind of op",
    "simulator.costs.profile": "one file format with all its figures, each checked where it is read",
    "simulator.oracle.kernel_cases": "it is the table of kernels that are timed, a case for each",
    "simulator.graph.ops": "questions about an op, answered from one registry through shared caches",
    "simulator.shapes.rules": "it is the table of shapes, a row for each rule",
    "simulator.shapes.values": "an evaluator of small tensors, a function for each kind of op",
    "simulator.shapes.propagation": "one fixed point over shapes, values and handles, which depend on each other",
    "simulator.shapes.site": "one class: what a rule may ask, and how shapes are joined",
    "simulator.shapes.formulas.arrays": "a rule per kind of op that lays tensors out anew, independent of each other",
    "simulator.shapes.formulas.images": "a rule per kind of image, file, record, string and sparse tensor",
    "simulator.shapes.formulas.neural": "a rule per layer, independent of each other",
    "simulator.shapes.formulas.indexing": "a rule per kind of slice, gather, scatter and segment",
    "simulator.shapes.formulas.state": "a rule per op that puts in or takes out, for each kind of store",
    "simulator.graph.messages": "the table of TensorFlow's messages, and the classes made from it",
    "simulator.graph.inlining.lowering": "a replacement per kind of op, each in TensorFlow's order of new nodes",
    "simulator.comparison.cut_nodes": "what makes two nodes of cuts equal: by themselves, and up to chance",
    "simulator.oracle.record": "a record: its making, its file and its command",
    "simulator.oracle.observing": "a step that runs: the graph made ready for it, what is fed, and the answer",
    "simulator.placer.colocation": "TensorFlow's colocation_graph.cc and inspecting_placer.cc, which call each other",
    "simulator.execution.routes": "routes and their numbers: what pairs of devices share, in columns",
    "simulator.execution.laws": "all laws of a trace, those of order included, over one record",
    "simulator.execution.table_columns": "the columns of `Tables`, with the ops that stand for moments",
    "simulator.training.programs.accumulators": "both parts of a synchronous step in one graph, and what joins them",
    "simulator.training.control.layout": "every column that the controller reads, made once",
    "simulator.execution.event_loop": "the heart: one function, which keeps the state of the loop in local names",
    "simulator.execution.compiled.task_graph": "the two passes of lowering, over edges and over transfers",
    "simulator.training.control.controller": "the heart of a training: its functions call each other over one state",
    "simulator.training.answers.steady_state": "three questions of one series of updates, by published statistics",
    "simulator.training.control.synchronisation": "all that clients wait for: accumulators, queues and inputs",
    "simulator.training.inputs.producers": "queue runners and datasets, which fill inputs at the same price of an op",
    "simulator.training.answers.reliefs": "a relief, the run with it, and the candidates, one per kind of resource",
    "simulator.shapes.batches": "the numbers that are the batch, in shapes and in loops, and the file with others",
    "simulator.shapes.origins": "one system of equations: the numbers of a file, what ties them, and how it is solved",
    "simulator.shapes.datasets": "the kinds of datasets, a rule for the elements of each, and the batch that fits",
    "simulator.execution.loops.predicates": "a predicate is found, requested, decided and read by Switches",
    "simulator.execution.loops.choices": "a scenario, the search over scenarios and its notes change together",
    "simulator.execution.loops.values": "both evaluators, before and after trips are known, follow the same ops",
    "viz.command.ingredients": "graph, cluster and costs of a step, an instance or a training, each read once",
    "viz.command.request": "a field, its reading and its checks per option",
    "viz.command.options": "the options and their help, a table of texts",
    "viz.command.summary": "a line of text per function, for a step and for a training",
    "viz.figures": "a table of figures per function, independent of each other",
    "viz.timeline.timeline": "lanes, slices and arrows of a trace, which refer to each other by row",
    "viz.page.folding": "two rules of drawing over one tree: scopes, and variables in the boxes of readers",
    "viz.formats.json_object": "a key of the JSON per line, and a function per part of it",
    "viz.page.report": "a column group of the page's JSON per function, independent of each other",
}
LONG_FUNCTIONS: dict[str, str] = {
    "simulator.execution.event_loop.event_loop": "it is nothing but `play`, with its hooks around it",
    "simulator.execution.event_loop.play": "the event loop keeps its state in local names, which is what makes it fast",
    "simulator.execution.task_graph.lower": "a column for every stretch of a transfer, each computed from those before",
    "simulator.execution.compiled.task_graph.find": "one pass over the edges, its arrays in local names",
    "simulator.execution.compiled.task_graph.write": "one pass over the transfers, its arrays in local names",
}
# Rooms of siblings, each of which one table or walk reads, by design: room -> its reader.
SIBLINGS = {
    "placement.algorithms": "placement.algorithms",  # loaded by their names
    "simulator.costs.estimates": "simulator.costs.estimate",
    "simulator.costs.formulas": "simulator.costs.rules",
    "simulator.costs.measurements": "simulator.costs.measurements.reading",
    "simulator.execution.compiled": "simulator.execution.compiled.engine",  # lowering, and memory
    "simulator.instances": "simulator.instances.reading",
    "simulator.partitioning.passes": "simulator.partitioning.cut",
    "viz.formats": "viz.formats.drawing",
    "viz.pictures": "viz.formats.drawing",
    "simulator.shapes.formulas": "simulator.shapes.rules",
}
# what they show is used by others, too
PACKAGES = ("simulator", "placement", "viz", "simulator.oracle", "placement.environment")
MOST_ALONE = 30
# Other modules that one other module alone imports, and why each is a module of its own.
ALONE: dict[str, str] = {
    # doors: a package, or Python itself, loads its one entry
    "simulator.execution.loops.unrolling": "door: what `loops` offers to the rest of the execution",
    "viz.command.cli": "door: it loads the whole command, which `viz.entry` must not",
    "viz.bench.command": "door: the command `simviz bench`, which other commands must not load",
    "viz.bench.table": "the figures of a bench, tested by themselves on rows that are made up",
    # compiled: never loaded by an import of the product
    "simulator.training.control.compiled": "loads the compiler, so only where it is wanted",
    # forms of files, each tested by itself
    "simulator.cluster.toml_file": "one form of a cluster's file, with all its tables",
    "simulator.graph.text_format": "a fast reader of the text form, judged by protobuf's own",
    # one of several siblings behind a table or a walk
    "simulator.execution.loops.choices": "the search over scenarios, before anything is unrolled",
    "placement.search.filling": "placements for little memory, which most steps never need",
    "placement.search.starting": "the starts and their share of the budget, apart from what is done with them",
    "placement.search.walks": "threads and their end, apart from what a walk does",
    "simulator.graph.inlining.lowering": "what single ops become, as in TensorFlow; `expanding` is the walk",
    "simulator.training.programs.allreduce": "one form of replication, as `towers` is",
    "simulator.training.recognition.updated_statistics": "a rule of the field, tested on statistics and networks alone",
    # a method or a paper of its own, with outside judges
    "simulator.bounds.loads": "the energetic argument, one of four bounds",
    "simulator.bounds.demands": "the questions to `prices`, which is judged by a linear program alone",
    "placement.search.minimum_cut": "Stone's assignment to two processors, judged by trying all",
    "simulator.execution.laws": "what holds of every trace, with `==`; nothing of the product needs it",
    "simulator.execution.loops.windows": "parallel_iterations as ops and edges, an option of a loop",
    "simulator.partitioning.laws": "what holds of every cut, with `==`",
    "simulator.placer.legality": "the placer's rules for a placement that somebody made",
    "simulator.shapes.batches": "the change of a fixed batch: which numbers repeat it, and how they are written anew",
    "simulator.shapes.calls": "functions' bodies and their symbols, beside the fixed point over one graph",
    "simulator.shapes.loops": "the ways that loops and branches take, beside the fixed point that asks for them",
    # a part of a larger whole, with a border of its own
    "simulator.cluster.scaling": "a description with one figure multiplied, for any use, tested by itself",
    "simulator.oracle.placed_steps": "a conversation with TensorFlow: the real one runs behind one door",
    "simulator.training.control.run": "the loop without regimes, which tests drive directly",
    "viz.command.what_if": "the changes that are tried, beside the stages that run each of them",
    "viz.command.training_beside": "the choice between placements of a training, before it is run",
    "viz.page.packing": "the rules that assets/unpacking.js has as well, side by side with it",
}
# What may be imported against the order of the rooms, and why.
ACROSS_ROOMS: dict[str, str] = {
    "simulator.graph.inlining.calls imports simulator.cluster.devicespec": (
        "a call's device is merged into those of its body"
    ),
}


@cache
def modules() -> dict[str, tuple[Path, str, ast.Module]]:
    """Module name -> its file, text and tree."""
    found = {}
    for floor in FLOORS:
        for path in sorted((ROOT / floor).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            text = path.read_text(encoding="utf-8")
            found[name] = (path, text, ast.parse(text))
    return found


@cache
def imports(name: str, *, anywhere: bool = True) -> frozenset[str]:
    """Modules that a module imports; with `anywhere` those inside functions and for type checkers too."""
    return frozenset(_imports(name, anywhere=anywhere))


def _imports(name: str, *, anywhere: bool) -> Iterator[str]:
    path, _, tree = modules()[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree) if anywhere else _when_loaded(tree.body):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])])
            base = base if node.level else node.module or ""
            for alias in node.names:
                deeper = f"{base}.{alias.name}"
                yield deeper if deeper in modules() else base


def _when_loaded(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when the module is imported; not those under `if TYPE_CHECKING`."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        for inner in ("body", "orelse", "finalbody"):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _when_loaded(getattr(node, inner, []))


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body, without the docstring."""
    body = function.body[ast.get_docstring(function) is not None :]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_there_is_something_to_look_at() -> None:
    assert len(modules()) > 40
    assert "simulator.graph.graph" in imports("simulator.partitioning.cut")


def test_imports_run_down_from_floor_to_floor() -> None:
    wrong = [
        f"{name} imports {other}"
        for name in modules()
        for other in imports(name)
        if other.split(".")[0] in FLOORS[FLOORS.index(name.split(".")[0]) + 1 :]
    ]
    assert wrong == []


def test_imports_run_down_from_room_to_room() -> None:
    wrong = []
    for name in modules():
        room = ".".join(name.split(".")[:2])
        for other in imports(name):
            there = ".".join(other.split(".")[:2])
            if room in ROOMS and there in ROOMS and there != room and there not in ROOMS[room]:
                wrong.append(f"{name} imports {other}")
    assert set(wrong) == ACROSS_ROOMS.keys()


def test_no_import_cycle() -> None:
    """Nor one that an import inside a function, or for type checkers alone, would hide."""
    below = {name: {m for m in imports(name) if m in modules()} for name in modules()}
    below = {name: {m for m in found if m != name} for name, found in below.items()}
    while below:
        free = [name for name, found in below.items() if not found & below.keys()]
        assert free, f"these import each other: {sorted(below)}"
        for name in free:
            del below[name]


def test_a_module_that_one_other_alone_imports_gives_its_reason() -> None:
    """Two modules of one subject are one; the reasons say why these are two.

    Three sorts of modules have one importer by design, and count apart: siblings, which one table or walk reads; what a
    package shows, whose importers are programs of others; and the console script, which setup.cfg names.
    """
    importers: dict[str, set[str]] = {name: set() for name in modules()}
    for name in modules():
        for other in imports(name):
            if other in importers and other != name:
                importers[other].add(name)
    alone = {name: min(found) for name, found in importers.items() if len(found) == 1}
    alone = {name: reader for name, reader in alone.items() if modules()[name][0].name != "__init__.py"}
    scripts = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    by_design = {
        name
        for name, reader in alone.items()
        if SIBLINGS.get(name.rpartition(".")[0]) == reader or reader in PACKAGES or f"= {name}:" in scripts
    }
    assert alone.keys() - by_design == ALONE.keys()
    assert len(ALONE) <= MOST_ALONE


def test_a_room_of_siblings_has_some() -> None:
    for room, reader in SIBLINGS.items():
        read = {name for name in imports(reader) if name.startswith(f"{room}.")}
        by_name = {f"{room}.{name}" for name in TABLE} if room == reader else set()
        assert len(read | by_name) >= 3, f"{room}: merge these"


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_package_shows_is_also_known_to_type_checkers(package: str) -> None:
    shown = import_module(package)._EXPORTS
    conditions = [node for node in modules()[package][2].body if isinstance(node, ast.If)]
    inside = [node for at in conditions for node in at.body if isinstance(node, ast.ImportFrom)]
    assert shown == {alias.asname: node.module for node in inside for alias in node.names}
    assert all(getattr(import_module(package), name) is not None for name in shown)


def test_tensorflow_is_imported_only_behind_its_door_and_inside_functions() -> None:
    everywhere = {name: {m.split(".")[0] for m in imports(name)} for name in modules()}
    assert [
        n for n, found in everywhere.items() if "tensorflow" in found and not n.startswith("simulator.oracle")
    ] == []
    for name in modules():
        allowed = {"llvmlite"} if name == KERNEL else set()
        assert not {m.split(".")[0] for m in imports(name, anywhere=False)} & set(HEAVY) - allowed, name


def test_llvm_is_imported_only_behind_its_door_and_what_is_compiled_where_it_is_used() -> None:
    others = [name for name in modules() if not name.startswith(COMPILED)]
    assert [name for name in modules() if "llvmlite" in {m.split(".")[0] for m in imports(name)}] == [KERNEL]
    assert [name for name in others if any(m.startswith(COMPILED) for m in imports(name, anywhere=False))] == []


def test_what_is_compiled_into_a_loop_is_among_the_sources_by_which_its_cache_is_found() -> None:
    """Else an edit there would go unnoticed; a way in may import what it calls outside of the loop."""
    from simulator.bounds.compiled import CUT, SOURCES
    from simulator.bounds.flow import Network, cut
    from simulator.bounds.heads import Predecessors, Room, heads
    from simulator.execution.arrays import Flows, SharedLinks, State, Tasks, Threads
    from simulator.execution.compiled.translation import INT, Array, Module, Table
    from simulator.execution.event_loop import event_loop
    from simulator.execution.event_queue import OVER_ARRAYS
    from simulator.training.control.arrays import Control
    from simulator.training.control.controller import HOOKS

    loop = [*map(Table, (Tasks, State, Threads, Flows, SharedLinks)), INT, INT, Array("int64", 1), INT, INT]
    for sources, function, types in (
        (STEP, event_loop(), [*loop, ()]),
        (TRAINING, event_loop(HOOKS), [*loop, Table(Control)]),
        (SOURCES, heads, [Table(Predecessors), Table(Room), INT]),
        (CUT, cut, [Table(Network), INT]),
    ):
        files = [ROOT / "simulator" / part for part in sources.parts]
        inside = {name for name, (path, _, _) in modules().items() if path in files or path.parent in files}
        read = Module(function, types, OVER_ARRAYS).files
        names = {name for name, (path, _, _) in modules().items() if str(path) in read}
        assert len(names) == len(read)
        used = names | {m for name in names for m in imports(name, anywhere=False) if m in modules()}
        assert used - inside <= {"simulator.columns", "simulator.units"}


def test_importing_the_product_loads_nothing_heavy() -> None:
    code = f"import simulator, placement, viz, viz.command.cli, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_files_are_short() -> None:
    long = {name for name, (_, text, _) in modules().items() if len(text.splitlines()) > MAX_FILE}
    assert long == LONG_FILES.keys()


def test_functions_are_short() -> None:
    lengths = {f"{name}.{f.name}": lines_of(f) for name, (_, _, tree) in modules().items() for f in functions(tree)}
    assert {name for name, length in lengths.items() if length > MAX_FUNCTION} == LONG_FUNCTIONS.keys()
    ordered = sorted(lines_of(f) for _, _, tree in modules().values() for f in functions(tree))
    assert ordered[len(ordered) * 9 // 10] <= MOST_FUNCTIONS


def test_a_class_has_a_name_of_its_own() -> None:
    """Two of one name mean two things by one word."""
    named: dict[str, list[str]] = {}
    for name, (_, _, tree) in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                named.setdefault(node.name, []).append(name)
    assert {name: found for name, found in named.items() if len(found) > 1} == {}


def test_whatever_is_public_has_a_docstring() -> None:
    bare = []
    for name, (_, _, tree) in modules().items():
        if ast.get_docstring(tree) is None:
            bare.append(name)
        bare += [f"{name}.{node.name}" for node in _public(tree.body) if ast.get_docstring(node) is None]
    assert bare == []


def test_no_docstring_opens_with_a_question() -> None:
    opens = re.compile(r"(What|Which|Whoever|Whatever)\b")
    found = [
        f"{name}: {text.splitlines()[0]}"
        for name, (_, _, tree) in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and opens.match(text := ast.get_docstring(node) or "")
    ]
    assert found == []


def _public(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for node in body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        if "overload" not in map(ast.unparse, node.decorator_list):
            yield node
            yield from _public(node.body) if isinstance(node, ast.ClassDef) else ()


def test_no_exception_is_swallowed_without_a_reason() -> None:
    """A handler that neither raises nor uses the error nor calls anything needs a comment beside it."""
    silent = []
    for name, (_, text, tree) in modules().items():
        lines = text.splitlines()
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler) and _is_silent(node):
                beside = lines[node.lineno - 2 : node.end_lineno]
                if not any("#" in line for line in beside):
                    silent.append(f"{name}:{node.lineno}: {ast.unparse(node)}")
    assert silent == []


def test_untyped_values_enter_by_two_doors_or_say_what_they_are() -> None:
    """Outside of graph/messages.py and oracle/ a module that speaks of Any says beside it, "Any: ...", what it is."""
    doors = ("simulator.graph.messages", "simulator.oracle")
    bare = [
        name
        for name, (_, text, _) in modules().items()
        if "typing.Any" in set(_imported(name)) and "Any:" not in text and not name.startswith(doors)
    ]
    assert bare == []


def _imported(name: str) -> Iterator[str]:
    """What a module imports by name from other modules, as "module.name"."""
    for node in ast.walk(modules()[name][2]):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_silent(handler: ast.ExceptHandler) -> bool:
    inside = [node for statement in handler.body for node in ast.walk(statement)]
    return not any(isinstance(node, ast.Raise | ast.Call) for node in inside)


def test_what_a_checker_is_told_to_pass_over_has_its_reason_on_the_line() -> None:
    told = re.compile(r"# (?:type: ignore|noqa)(?!\[[^]]+\]  # \w|: \w+(?:, \w+)*(?:  # | - )[\w`])")
    texts = {name: text for name, (_, text, _) in modules().items()}
    texts |= {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").glob("*.py")}
    bare = [f"{name}: {line}" for name, text in texts.items() for line in text.splitlines() if told.search(line)]
    assert bare == []
    assert told.search("found = 1  # type: ignore[misc]")
    assert told.search("found = 1  # noqa: E731")


@pytest.mark.parametrize("allowed", [LONG_FILES, LONG_FUNCTIONS, ALONE, ACROSS_ROOMS])
def test_every_exception_gives_its_reason(allowed: dict[str, str]) -> None:
    assert all(len(reason.split()) > 3 for reason in allowed.values())
