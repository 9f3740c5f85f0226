"""Tables as Parquet are read back by pyarrow, with the cells and kinds that they had, whatever the names."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from simulator.errors import SimvizError
from tests.viz.scenes import EXAMPLE, example, hostile, trained
from viz import run, to_tables
from viz.command.cli import main
from viz.formats.drawing import draw
from viz.formats.output import write
from viz.formats.parquet import parquet_of
from viz.scene import Scene


def read(data: bytes) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Rows, and column -> type."""
    table = parquet.read_table(io.BytesIO(data))
    return table.to_pylist(), dict(zip(table.schema.names, map(str, table.schema.types), strict=True))


def folder(scene: Scene) -> dict[str, bytes]:
    files = draw(scene, ".parquet")
    assert isinstance(files, dict)
    return files


@pytest.mark.parametrize("of", ["a comparison", "a training"])
def test_what_is_read_back_is_what_the_tables_hold(of: str, tmp_path: Path) -> None:
    scene = trained()
    if of == "a comparison":
        scene = run(EXAMPLE, cluster="ps=2,worker=1x2gpu,protocol=rdma", algorithm="tensorflow", against="heft")
    tables, target = to_tables(scene), tmp_path / "a.parquet"
    for _ in range(2):  # a folder that simviz wrote is replaced
        write(str(target), folder(scene))
    assert sorted(path.name for path in target.iterdir()) == sorted(f"{name}.parquet" for name in tables)
    for name, rows in tables.items():
        found, _ = read((target / f"{name}.parquet").read_bytes())
        assert found == rows, name


def test_columns_have_types() -> None:
    _, kinds = read(folder(example())["nodes.parquet"])
    assert kinds["name"] == kinds["device"] == "string"
    assert kinds["time_ns"] == "int64"
    assert kinds["runs"] == "bool"


def test_hostile_names_stand_as_they_are() -> None:
    scene = hostile()
    found, _ = read(folder(scene)["nodes.parquet"])
    escaped = [name.encode("utf-8", "backslashreplace").decode() for name in scene.graph.names]
    assert [row["name"] for row in found] == escaped


CELLS = {
    "bool": st.booleans(),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
    "double": st.floats(allow_nan=False),
    "string": st.text(st.characters(exclude_categories=["Cs"])),
}


@given(st.data())
def test_every_kind_of_cell_comes_back(data: st.DataObject) -> None:
    """None, too, in a column of any kind."""
    length = data.draw(st.integers(1, 4))
    columns = {
        kind: [*data.draw(st.lists(cells | st.none(), min_size=length, max_size=length)), data.draw(cells)]
        for kind, cells in CELLS.items()
    }
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    assert read(parquet_of(rows)) == (rows, {kind: kind for kind in columns})


@pytest.mark.parametrize(
    ("cells", "found", "kind"),
    [
        ([1 << 63, 1], [str(1 << 63), "1"], "string"),  # more than 64 bits
        ([1, 0.5], [1.0, 0.5], "double"),
        ([1, "x", None], ["1", "x", None], "string"),
        ([True, 1], ["True", "1"], "string"),
        ([None, None], [None, None], "null"),
        (["=1+1"], ["=1+1"], "string"),  # no spreadsheet runs it
    ],
)
def test_columns_of_mixed_kinds(cells: Sequence[object], found: Sequence[object], kind: str) -> None:
    assert read(parquet_of([{"x": cell} for cell in cells])) == ([{"x": cell} for cell in found], {"x": kind})


@pytest.mark.parametrize("command", [[str(EXAMPLE)], ["bench", str(EXAMPLE)]])
def test_without_pyarrow_the_command_says_so_before_it_runs(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("viz.formats.parquet.find_spec", lambda name: None)
    assert main([*command, "-o", "a.parquet"]) == 2
    said = "simviz: a.parquet: Parquet needs pyarrow: pip install 'simviz[parquet]'\n"
    assert capsys.readouterr().err == said
    assert list(tmp_path.iterdir()) == []


def test_without_pyarrow_a_result_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(EXAMPLE, cluster="ps=2,worker=1x2gpu", algorithm="single")
    monkeypatch.setattr("viz.formats.parquet.find_spec", lambda name: None)
    with pytest.raises(SimvizError, match="needs pyarrow"):
        result.write(str(tmp_path / "a.parquet"))
