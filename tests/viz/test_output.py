"""Files are written whole or not at all."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from simulator.errors import SimvizError
from tests.viz.scenes import EXAMPLE
from viz.command import running
from viz.command.cli import main
from viz.formats.output import check_place, check_suffix, write


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "a.html"
    target.write_text("old")
    target.chmod(0o640)
    write(str(target), b"new")
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_a_new_file_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write(str(tmp_path / "a.html"), b"x")
    assert (tmp_path / "a.html").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.html").write_text("old")
    (tmp_path / "a.html").symlink_to("real.html")
    write(str(tmp_path / "a.html"), b"new")
    assert (tmp_path / "a.html").is_symlink()
    assert (tmp_path / "real.html").read_bytes() == b"new"


def test_a_failed_replacement_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.html"
    target.write_text("old")

    def refuse(*_: Path | str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(SimvizError, match="No space left"):
        write(str(target), b"new")
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "a.partitions"
    write(str(target), {"one.pbtxt": b"1", "two.pbtxt": b"2"})
    write(str(target), {"three.pbtxt": b"3"})
    assert [path.name for path in target.iterdir()] == ["three.pbtxt"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.partitions"]


def test_runs_that_write_a_folder_at_the_same_moment_all_end_well(tmp_path: Path) -> None:
    target = tmp_path / "a.tables"

    def run(number: int) -> None:
        for _ in range(50):
            write(str(target), {"nodes.csv": b"%d" % number, "edges.csv": b"%d" % number})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))  # an error of any of them is raised here
    assert len({file.read_bytes() for file in target.iterdir()}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.tables"]


def test_places_that_cannot_be_written_are_refused_early(tmp_path: Path) -> None:
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "file.partitions").touch()
    with pytest.raises(SimvizError, match="is a folder"):
        check_place(str(tmp_path / "folder.html"))
    with pytest.raises(SimvizError, match="is a file"):
        check_place(str(tmp_path / "file.partitions"), folder=True)


@pytest.mark.parametrize("path", ["a", "a.json", "a.HTML", ".html", "a.svg.gz"])
def test_unknown_suffixes_are_refused(path: str) -> None:
    with pytest.raises(SimvizError, match="suffix"):
        check_suffix(path)


def test_what_cannot_be_written_of_a_run_is_refused_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "placed", None)  # what takes long
    (tmp_path / "a.tables").mkdir()
    (tmp_path / "a.tables" / "mine.txt").touch()
    run = [str(EXAMPLE), "--cluster", "ps=2,worker=1x2gpu", "-o"]
    for options, said in (
        (["a.meta"], "is no MetaGraph"),
        (["a.placement.json"], "is a graph, so write .pb or"),
        (["a.observed"], "No step was observed"),
        (["a.comparison.svg"], "add --against"),
        (["a.comparison.svg", "--training", "async", "--against", "sync"], "a training's is in the report"),
        (["a.memory.svg", "--training", "async"], "A training's memory is a bound"),
        (["a.meta", "--microbatches", "auto"], "is no MetaGraph"),
        (["a.tables"], "holds 'mine.txt', which simviz did not write"),
    ):
        assert main([*run, *options]) == 2
        assert said in capsys.readouterr().err
    monkeypatch.setenv("PATH", "")
    assert main([*run, "a.svg"]) == 2
    assert "not on the PATH" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.tables"]


def test_an_interruption_between_the_two_renamings_keeps_the_old_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a.partitions"
    write(str(target), {"one.pbtxt": b"1"})
    rename = Path.rename

    def interrupted(path: Path, other: Path) -> Path:
        if other == target and not path.name.endswith(".old"):
            raise KeyboardInterrupt
        return rename(path, other)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(str(target), {"two.pbtxt": b"2"})
    assert [path.name for path in target.iterdir()] == ["one.pbtxt"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.partitions"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (f"{'x' * 5000}.html", "cannot be written: File name too long"),
        ("", "is empty; give another"),
        ("a\0.html", "holds a null character"),
        ("nowhere/a.html", "there is no folder .*nowhere"),
    ],
)
def test_a_name_that_no_file_can_have_is_refused_early(path: str, words: str) -> None:
    with pytest.raises(SimvizError, match=words):
        check_place(path)


def test_links_in_a_circle_are_refused_and_a_link_to_what_is_not_there_yet_is_written_through(tmp_path: Path) -> None:
    circle, ahead = tmp_path / "circle.html", tmp_path / "ahead.html"
    circle.symlink_to("circle.html")
    with pytest.raises(SimvizError, match="cannot be written: Too many levels of symbolic links"):
        check_place(str(circle))
    ahead.symlink_to("later.html")
    check_place(str(ahead))
    write(str(ahead), b"x")
    assert (ahead.is_symlink(), (tmp_path / "later.html").read_bytes()) == (True, b"x")
