"""Algorithms of others: functions and entry points, what is made of their plans, and what is refused."""

import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placement import Plan, Problem, place, verdict
from placement.placing import ALGORITHMS
from placement.problem import NEVER
from simulator import Assignment, choose_step, estimate, load, load_cluster, partition, simulate
from simulator.assignment import COST, NOT_RUN, ONLY, RULES
from simulator.errors import InfeasibleError, SimvizError
from simulator.laws import assignment_laws

ROOT = Path(__file__).parents[2]
GRAPH = load(ROOT / "examples" / "ps_training.pbtxt")
CLUSTER = load_cluster("ps=2,worker=1x2gpu")
STEP, COSTS = choose_step(GRAPH), estimate(GRAPH, CLUSTER)


def placed(algorithm: Any, **options: Any) -> Assignment:
    return place(GRAPH, CLUSTER, COSTS, step=STEP, algorithm=algorithm, **options)


def preferred(problem: Problem) -> Plan:
    return Plan([allowed[0] for allowed in problem.allowed])


def test_a_plan_of_devices_alone_is_enough() -> None:
    made = placed(preferred)
    assert (made.asked, made.used) == ("preferred", "preferred")
    assert assignment_laws(GRAPH, made, CLUSTER) == []
    assert {RULES[COST], RULES[ONLY], RULES[NOT_RUN]} <= {RULES[row] for row in made.why.tolist()}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_of_simviz_handed_in_as_a_function_gives_the_same(name: str) -> None:
    own, handed = placed(name, fallback=False), placed(ALGORITHMS[name], fallback=False)
    assert own.device.tolist() == handed.device.tolist()
    assert own.why.tolist() == handed.why.tolist()


def test_a_problem_that_was_judged_can_go_to_another_process() -> None:
    """The memory of the compiled event loop stayed in it, whose addresses can't be pickled."""
    kept: list[Problem] = []

    def kept_aside(problem: Problem) -> Plan:
        kept.append(problem)
        return preferred(problem)

    placed(kept_aside)
    (problem,) = kept
    said = verdict(problem, preferred(problem))
    assert problem.tables.layouts.idle
    sent = pickle.loads(pickle.dumps(problem))
    assert not sent.tables.layouts.idle
    assert verdict(sent, preferred(sent)) == said
    assert ALGORITHMS["heft"](sent).device == ALGORITHMS["heft"](problem).device


@pytest.mark.parametrize("field", ["group", "ops", "lawful", "allowed", "resident", "capacity"])
def test_an_algorithm_that_changes_the_problem_is_told_so(field: str) -> None:
    """Its plan was judged by what it had changed, or some algorithm of simviz failed later."""

    def careless(problem: Problem) -> Plan:
        plan = preferred(problem)
        getattr(problem, field)[0] = [0] if field in ("ops", "lawful", "allowed") else 7
        return plan

    with pytest.raises(SimvizError, match=f"algorithm 'careless' changed the problem's '{field}'; let it change a cop"):
        placed(careless)


def test_what_is_handed_in_stands_and_a_note_says_that_one_device_is_faster() -> None:
    def worst(problem: Problem) -> Plan:
        dealt = [allowed[row % len(allowed)] for row, allowed in enumerate(problem.allowed)]
        return Plan(np.array(dealt))  # type: ignore[arg-type]  # as people do

    made = placed(worst)
    assert made.used == "worst"
    assert re.fullmatch(r"single takes .*, and worst, which is shown, takes .*", made.notes[-1])
    assert placed(worst, fallback=False).notes == ()
    told = simulate(partition(GRAPH, made, CLUSTER, step=STEP), CLUSTER, COSTS).makespan
    single = placed("single")
    assert simulate(partition(GRAPH, single, CLUSTER, step=STEP), CLUSTER, COSTS).makespan < told


def test_the_verdict_is_what_the_step_takes() -> None:
    seen: list[int] = []

    def judged(problem: Problem) -> Plan:
        plan = preferred(problem)
        full, makespan = verdict(problem, plan)
        seen.append(makespan)
        assert not full
        assert sorted(problem.topological.tolist()) == list(range(len(problem.group)))
        assert problem.transfer_ns(0, 0, 100) == 0 < problem.transfer_ns(0, 1, 100) < NEVER
        return plan

    made = placed(judged)
    assert seen == [simulate(partition(GRAPH, made, CLUSTER, step=STEP), CLUSTER, COSTS).makespan]


def fails(problem: Problem) -> Plan:
    raise KeyError("w")


NONSENSE: dict[str, tuple[Callable[[Problem], Any], str]] = {
    "nothing": (lambda p: None, r"returned a NoneType, not a placement\.Plan"),
    "short": (lambda p: Plan([0]), r"device has 1 number for \d+ groups"),
    "no_list": (lambda p: Plan(7), r"device is a int, not a list"),  # type: ignore[arg-type]
    "no_device": (lambda p: Plan([99] * len(p.lawful)), r"99 for group 0; give an integer from 0 to 4"),
    "negative": (lambda p: Plan([-1] * len(p.lawful)), r"-1 for group 0"),
    "no_number": (lambda p: Plan(["GPU:0"] * len(p.lawful)), r"'GPU:0' for group 0"),  # type: ignore[list-item]
    "fraction": (lambda p: Plan([1.0] * len(p.lawful)), r"1\.0 for group 0"),  # type: ignore[list-item]
    "priorities": (lambda p: Plan(preferred(p).device, priority=[1]), r"priority has 1 number for 224 nodes"),
    "rules": (lambda p: Plan(preferred(p).device, [99] * len(p.lawful)), r"rule has 99 for group 0"),
    "columns": (lambda p: Plan(np.zeros((len(p.lawful), 2), int)), r"\[0, 0\]\) for group 0"),  # type: ignore[arg-type]
    "no_rules": (lambda p: Plan(preferred(p).device, rule=7), r"rule is a int, not a list"),  # type: ignore[arg-type]
    "no_notes": (lambda p: Plan(preferred(p).device, notes=7), r"notes is a int, not a list"),  # type: ignore[arg-type]
    "stops": (lambda p: Plan(1 // (3 - row) for row in range(9)), r"device failed: ZeroDivisionError"),  # type: ignore[arg-type]
    "fails": (fails, r"failed: KeyError: 'w'"),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_is_refused_in_a_sentence(what: str) -> None:
    algorithm, words = NONSENSE[what]
    with pytest.raises(SimvizError, match=words) as caught:
        placed(algorithm)
    assert str(caught.value).count("\n") == 0


@pytest.mark.parametrize(("notes", "made"), [("one two", ("one two",)), (None, ()), ("", ()), (["a", 3], ("a", "3"))])
def test_notes_of_any_kind_are_sentences(notes: Any, made: tuple[str, ...]) -> None:
    noted = placed(lambda problem: Plan(preferred(problem).device, notes=notes), fallback=False)
    assert noted.notes == made
    nothing: Any = None
    assert (
        placed(lambda problem: Plan(preferred(problem).device, rule=nothing)).device.tolist() == noted.device.tolist()
    )


def test_a_device_that_a_group_may_not_use_is_refused_at_its_node() -> None:
    with pytest.raises(InfeasibleError, match=r"puts 'images' \(group 0\) on ps:0/CPU:0.*may use worker:0/") as caught:
        placed(lambda problem: Plan([0] * len(problem.lawful)))
    assert caught.value.node == "images"
    assert "images" in caught.value.members


def test_the_example_of_the_documentation_runs(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(ROOT)
    code, *_ = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "algorithms.md").read_text(), re.DOTALL)
    known: dict[str, Any] = {}
    exec(code, known)
    assert known["assignment"].used == "balanced"
    assert capsys.readouterr().out.startswith(f"balanced {known['trace'].makespan}")


def test_the_documentation_names_each_field_of_the_problem() -> None:
    told = (ROOT / "docs" / "algorithms.md").read_text()
    fields = set(Problem.__dataclass_fields__) - {"prepared", "seen"}
    assert [name for name in sorted(fields) if f"`{name}`" not in told] == []


PACKAGE = """
from placement import Plan

loaded = True


def spread(problem):
    return Plan([allowed[-1] for allowed in problem.allowed])


def wrong(problem):
    return "GPU:0"


number = 7
"""
OFFERED = {
    "spread": "tiny.placing:spread",
    "wrong": "tiny.placing:wrong",
    "number": "tiny.placing:number",
    "gone": "tiny.placing:gone",
    "missing": "tiny.missing:f",
    "heft": "tiny.placing:spread",
    "twice": "tiny.placing:spread",
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip installed two packages that offer algorithms."""
    target, sources = tmp_path_factory.mktemp("installed"), []
    for name, offered in (("tiny", OFFERED), ("other", {"twice": "tiny.placing:spread"})):
        source = tmp_path_factory.mktemp(name)
        (source / name).mkdir()
        (source / name / "__init__.py").write_text("")
        (source / name / "placing.py").write_text(PACKAGE)
        lines = [f'[project]\nname = "{name}"\nversion = "1"\n[project.entry-points."simviz.algorithms"]']
        lines += [f'{key} = "{value}"' for key, value in offered.items()]
        (source / "pyproject.toml").write_text(
            "\n".join(
                ["[build-system]", 'requires = ["setuptools"]', 'build-backend = "setuptools.build_meta"', *lines]
            )
        )
        sources.append(str(source))
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(target), *sources], check=True, capture_output=True)
    return target


def command(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command where those packages are installed."""
    code = f"import sys; sys.path.insert(0, {str(installed)!r}); from viz.command.cli import main; sys.exit(main())"
    line = [sys.executable, "-c", code, *arguments]
    return subprocess.run(line, capture_output=True, text=True, cwd=ROOT, check=False)


CALL = ("examples/ps_training.pbtxt", "--cluster", "ps=2,worker=1x2gpu", "--json", "-")


def test_a_package_adds_an_algorithm_to_the_command(installed: Path) -> None:
    done = command(installed, *CALL, "--algorithm", "spread")
    assert (done.returncode, done.stderr) == (0, "")
    assert '"asked": "spread"' in done.stdout
    code = (
        f"import sys; sys.path.insert(0, {str(installed)!r})\nfrom viz import run\n"
        f"used = run({CALL[0]!r}, cluster={CALL[2]!r}, algorithm='spread').assignment.used\n"
        "print(used, 'tiny.placing' in sys.modules)"
    )
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert asked.stdout == "spread True\n"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wrong", "The algorithm 'wrong' returned a str, not a placement.Plan."),
        ("number", "of the package tiny (tiny.placing:number) is no function but a int."),
        ("gone", "of the package tiny (tiny.placing:gone) cannot be loaded: AttributeError"),
        ("missing", "of the package tiny (tiny.missing:f) cannot be loaded: ModuleNotFoundError"),
        ("twice", "algorithm 'twice' is offered by other and tiny: uninstall one of them."),
        ("spraed", "Did you mean 'spread'?"),
    ],
)
def test_what_cannot_be_used_is_an_error_of_one_sentence(installed: Path, name: str, words: str) -> None:
    done = command(installed, *CALL, "--algorithm", name)
    assert done.returncode == 2
    assert done.stderr.startswith("simviz: ")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_help_lists_what_packages_offer_without_loading_them(installed: Path) -> None:
    told = command(installed, "--help").stdout
    assert re.search(r"  spread +of tiny\n", told)
    assert re.search(r"  heft +hidden: simviz has its own\n", told)
    assert re.search(r"  twice +of several packages, none of which can be chosen: other, tiny\n", told)
    assert "algorithms of other packages" not in command(ROOT / "docs", "--help").stdout


def test_simvizs_own_names_stay_its_own(installed: Path) -> None:
    alone = command(ROOT / "docs", *CALL, "--algorithm", "heft").stdout
    assert command(installed, *CALL, "--algorithm", "heft").stdout == alone
