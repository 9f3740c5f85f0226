"""Tables as CSV are read back by Python's reader, whatever the names, and agree with the run."""

import csv
import io
from pathlib import Path

import pytest

from tests.strategies import Rows, type_attr
from tests.viz.scenes import example, hostile
from viz import run, to_tables
from viz.formats.drawing import draw
from viz.formats.output import write
from viz.formats.tables import _csv
from viz.scene import Scene


def test_what_is_read_back_is_what_was_written(tmp_path: Path) -> None:
    scene = run(
        "examples/ps_training.pbtxt", cluster="ps=2,worker=1x2gpu,protocol=rdma", algorithm="tensorflow", against="heft"
    )
    tables, folder = to_tables(scene), tmp_path / "a.tables"
    assert set(tables) == {
        "nodes",
        "edges",
        "step",
        "transfers",
        "devices",
        "links",
        "critical",
        "moved",
        "crossings",
        "explanation",
    }
    for _ in range(2):  # a folder that simviz wrote is replaced
        write(str(folder), draw(scene, ".tables"))
    assert sorted(path.stem for path in folder.iterdir()) == sorted(tables)
    for name, rows in tables.items():
        with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            read = list(csv.DictReader(file))
        assert read == [{key: "" if cell is None else str(cell) for key, cell in row.items()} for row in rows], name
    (step,) = tables["step"]
    assert (step["makespan_ns"], step["makespan_is_lower_bound"]) == (scene.trace.makespan, False)
    assert isinstance(scene.against, Scene)
    assert sum(row["ns"] for row in tables["critical"]) == scene.trace.makespan
    assert (
        sum(row["difference_ns"] for row in tables["explanation"])
        == scene.trace.makespan - scene.against.trace.makespan
    )
    assert sum(row["time_ns"] for row in tables["nodes"]) == int(
        (scene.trace.ops.end_ns - scene.trace.ops.start_ns).sum()
    )


def test_rows_of_a_table_have_the_same_columns() -> None:
    for rows in to_tables(example()).values():
        assert len({tuple(row) for row in rows}) == 1


def test_a_step_with_tensors_of_unknown_size_says_so() -> None:
    graph = Rows()
    graph.add("x", "Placeholder", dtype=type_attr())
    graph.add("y", "Neg", ["x"], T=type_attr())
    (step,) = to_tables(run(graph.built(), algorithm="single"))["step"]
    assert step["makespan_is_lower_bound"]
    assert step["unsized_tensors"] == 2


def test_hostile_names_stay_in_their_cells() -> None:
    scene = hostile()
    files = draw(scene, ".tables")
    assert isinstance(files, dict)
    read = list(csv.DictReader(io.StringIO(files["nodes.csv"].decode("utf-8"), newline="")))
    assert len(read) == len(scene.graph)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@A1", "\t=1"])
def test_no_text_is_a_formula_and_numbers_stay_numbers(text: str) -> None:
    assert _csv([{"name": text, "ns": -1}]).splitlines()[1] in (f"'{text},-1", f'"\'{text}",-1')
