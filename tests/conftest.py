"""What all tests share: how long hypothesis searches, and what is missing on this machine."""

import gc
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture.providers import HypothesisProvider
from hypothesis.internal.constants_ast import Constants

from placement.algorithms import exact
from placement.search import judge
from simulator.bounds import prices
from simulator.oracle import child
from tests.oracle import forking, staying

TESTS = Path(__file__).parent
# The machines that run these are shared: a slow example is no failure. Derandomised, so that a run can be repeated;
# `pytest --hypothesis-profile=long` searches further and at random.
USUAL = 25  # examples of a law that says no number
settings.register_profile(
    "default", max_examples=USUAL, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")
# Nor may what is drawn depend on which modules are there yet: hypothesis takes a part of it from their constants, and
# each worker imports what the tests that it got happen to need. It has no setting for that.
HypothesisProvider._local_constants = Constants()  # type: ignore[assignment]

# Child processes of the tests must not look for GPUs, whatever the machine has, and must not talk on stderr.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

# A shell starts what it runs in the background with Ctrl-C ignored, which children inherit; some are to be interrupted.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Keep bytecode in pytest's cache where Python is told to keep none, as on machines that are made anew each time.

    Else each child process compiles what it imports: of TensorFlow's modules that is ten seconds of a processor.
    """
    cache = getattr(config, "cache", None)  # none where pytest is told to keep none
    if sys.dont_write_bytecode and cache is not None:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(cache.mkdir("bytecode"))
        sys.dont_write_bytecode = False


def _runs_all(config: pytest.Config) -> bool:
    return [Path(one).resolve() for one in config.args] == [TESTS]


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    """Compile the loops once, while the workers collect: each of them compiles what it does not find."""
    with ExitStack() as beside:
        if _runs_all(session.config) and "PYTEST_XDIST_WORKER" not in os.environ:
            command = [sys.executable, "-m", "viz", "--warm-up"]
            nowhere = subprocess.DEVNULL
            beside.enter_context(subprocess.Popen(command, stdout=nowhere, stderr=nowhere, cwd=TESTS.parent))
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Look for no garbage among modules and tests, which stay: it takes a tenth of the time.

    Each worker imports a part of its own first, so that they do not all compile the same module at the same time.
    """
    gc.disable()
    if _runs_all(session.config) and "PYTEST_XDIST_WORKER" in os.environ:
        own, count = int(os.environ["PYTEST_XDIST_WORKER"][2:]), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        for path in sorted(TESTS.rglob("test_*.py"))[own::count]:
            import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Let a profile multiply the examples of laws that say a number of their own, which hypothesis takes as it is."""
    usual = settings.default
    times = usual.max_examples // USUAL if usual else 1
    for law in {item.function for item in items if isinstance(item, pytest.Function) and times > 1}:
        own = getattr(law, "_hypothesis_internal_use_settings", None)
        if own is not None and own != usual:
            law._hypothesis_internal_use_settings = settings(
                own, max_examples=times * own.max_examples, derandomize=False
            )


@pytest.fixture(scope="session", autouse=True)
def _temporary_files(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep temporary files of the tests and their child processes where pytest deletes them: a child that is killed
    deletes nothing, nor does TensorFlow, whose AutoGraph writes modules, in one that ends at once.
    """
    os.environ["TMPDIR"] = str(tmp_path_factory.mktemp("tmp"))
    tempfile.tempdir = None  # to be looked up again


@pytest.fixture(scope="module", autouse=True)
def _short_searches(request: pytest.FixtureRequest) -> Iterator[None]:
    """Search for a hundredth of the time where nobody says how long. Child processes search as users do, and so do
    tests that ask how well something is placed, or what documents show. Tests of what is shown take a bound by fewer
    rounds: it is as lawful, and a fifth of such a run.
    """
    whole = {"golden", "pages", "search"} & {*request.path.parts}
    with ExitStack() as short:
        if not whole:
            short.enter_context(patch.object(judge, "_DEFAULT", judge._DEFAULT / 100))
            short.enter_context(patch.object(exact, "WORK", exact.WORK / 20))
        if {"oracle", "viz"} & {*request.path.parts}:
            short.enter_context(patch.object(prices, "_ROUNDS", prices._ROUNDS // 6))
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_template_stays_longer_than_the_tests() -> Iterator[None]:
    yield
    forking.end()


@pytest.fixture(scope="module", autouse=True)
def _tensorflow_is_imported_once_for_all_files() -> Iterator[None]:
    with patch.object(child, "start", forking.start):
        yield


@pytest.fixture
def own_processes() -> Iterator[None]:
    """Start each process as users do, none by a fork."""
    with patch.object(child, "start", forking.unforked):
        yield


@pytest.fixture(scope="module", autouse=True)
def _no_process_stays_longer_than_its_file() -> Iterator[None]:
    yield
    staying.end()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, and say why, what this machine cannot run; where CI is set nothing may be skipped."""
    needs = {
        "tensorflow": importlib.util.find_spec("tensorflow") is not None,
        "browser": bool(shutil.which("chromium") and shutil.which("chromedriver")),
        "graphviz": bool(shutil.which("dot")),
    }
    for name, there in needs.items():
        if item.get_closest_marker(name) and not there:
            if os.environ.get("CI"):
                pytest.fail(f"{name} is missing; .ci/setup installs it")
            pytest.skip(f"{name} is not installed here")
