"""The commands and the Python of every page are run as they are written, and print what the page shows."""

from __future__ import annotations

import contextlib
import doctest
import io
import shlex
from pathlib import Path

import pytest

from tests.pages.reading import PAGES, ROOT, Output, commands, python_blocks
from viz.command.cli import main

TEXTS = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in PAGES}
COMMANDS = [(page, command) for page, text in TEXTS.items() for command in commands(text)]


@pytest.fixture(autouse=True)
def _in_a_folder_with_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("examples", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)


def differences(shown: Output, printed: str) -> str:
    """What a page shows beside what was printed; "" where they agree."""
    example, checker = doctest.Example(shown.source, shown.printed), doctest.OutputChecker()
    if checker.check_output(shown.printed, printed, doctest.ELLIPSIS):
        return ""
    return checker.output_difference(example, printed, doctest.ELLIPSIS)


@pytest.mark.parametrize(
    ("page", "command"),
    [
        pytest.param(page, command, marks=[pytest.mark.tensorflow] * ("--check" in command.source))
        for page, command in COMMANDS
    ],
    ids=[f"{page}:{command.line}" for page, command in COMMANDS],
)
def test_a_command_prints_what_the_page_shows(page: str, command: Output, capsys: pytest.CaptureFixture[str]) -> None:
    name, *arguments = shlex.split(command.source)
    assert name == "simviz"
    assert main(arguments) == 0
    assert differences(command, capsys.readouterr().out) == ""


@pytest.mark.parametrize("page", [page for page, text in TEXTS.items() if python_blocks(text)])
def test_the_python_of_a_page_prints_what_the_page_shows(page: str) -> None:
    """The blocks of a page share their names, as the cells of a notebook do; tests among them pass."""
    known: dict[str, object] = {}
    wrong = []
    for block in python_blocks(TEXTS[page]):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * block.line + block.source, page, "exec"), known)
        wrong.append(differences(block, out.getvalue()))
    assert "".join(wrong) == ""
    for name, test in known.items():
        if name.startswith("test_") and callable(test):
            test()


def test_commands_and_python_are_found() -> None:
    pages = {page for page, _ in COMMANDS}
    assert {"README.md", "docs/options.md"} <= pages
    assert len(python_blocks(TEXTS["README.md"])) == 1
    assert differences(Output(1, "f()", "a ... c\n"), "a b c\n") == ""
    assert differences(Output(1, "f()", "a ... c\n"), "a b d\n") != ""


def test_the_tests_of_the_readme_are_those_of_ci() -> None:
    """CI runs the README's command word for word, and installs the packages as the first command does."""
    (setup,) = [line.strip() for line in TEXTS["README.md"].splitlines() if ".ci/setup" in line]
    assert setup in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert f"    {setup}" in TEXTS["CONTRIBUTING.md"].splitlines()
