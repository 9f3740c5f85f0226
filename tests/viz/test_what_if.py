"""What if: each row equals a run with that change made by hand, in the description of the cluster or by an option."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import Cluster, SimulationOptions, estimate, load, load_cluster, partition, simulate, with_shapes
from simulator.cluster.parts import shared_anew
from simulator.cluster.scaling import scaled
from simulator.cluster.toml_file import read_toml
from simulator.errors import SimvizError
from tests.strategies import Rows, shapes_attr, type_attr
from viz import Result, run
from viz.what_if import AGAIN, KEPT, WhatIf, WhatIfRow, ranked

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "ps_training.pbtxt")
# The figures of a description, as `what` of a row -> (name here, factor of its unit).
FIGURES = {
    "nic bandwidth": "nic_gb",
    "nic latency": "nic_us",
    "pcie bandwidth": "pcie_gb",
    "pcie latency": "pcie_us",
    "quick compute": "tflops",
    "quick memory bandwidth": "memory_gb",
    "quick launch": "launch_us",
    "slow compute": "cpu_gflops",
    "slow memory bandwidth": "cpu_gb",
    "slow launch": "cpu_ns",
}


def described(figures: dict[str, int], scale: dict[str, float] | None = None, protocol: str = "grpc") -> Cluster:
    """A parameter server and a worker with two GPUs, by TOML; `scale` multiplies figures."""
    of = {name: value * (scale or {}).get(name, 1) for name, value in figures.items()}
    return read_toml(
        f"""
        protocol = "{protocol}"
        [model.quick]
        type = "GPU"
        memory = "16 GB"
        compute = "{of["tflops"]} TFLOP/s"
        bandwidth = "{of["memory_gb"]} GB/s"
        launch = "{of["launch_us"]} us"
        [model.slow]
        type = "CPU"
        memory = "64 GB"
        compute = "{of["cpu_gflops"]} GFLOP/s"
        bandwidth = "{of["cpu_gb"]} GB/s"
        launch = "{of["cpu_ns"]} ns"
        [[host]]
        name = "box"
        count = 2
        cpu = "slow"
        gpus = "2 quick"
        pcie = {{ bandwidth = "{of["pcie_gb"]} GB/s", latency = "{of["pcie_us"]} us" }}
        nic = {{ bandwidth = "{of["nic_gb"]} GB/s", latency = "{of["nic_us"]} us" }}
        [[task]]
        job = "ps"
        host = "box0"
        gpus = []
        [[task]]
        job = "worker"
        host = "box1"
        """,
        "by hand",
    )


def whole(result: Result) -> WhatIf:
    assert result.what_if is not None
    return result.what_if


@settings(max_examples=3, deadline=None)
@given(
    st.fixed_dictionaries({name: st.sampled_from([2, 6, 30, 100, 900]) for name in FIGURES.values()}),
    st.booleans(),
    st.sampled_from(["serial", "fair", "none"]),
    st.sampled_from(["whitepaper", "tensorflow", "single"]),
)
def test_each_row_equals_a_run_with_that_change_made_by_hand(
    figures: dict[str, int], kept: bool, contention: str, algorithm: str
) -> None:
    graph = load(EXAMPLE, ignore_devices=True)
    base: dict[str, Any] = {"algorithm": algorithm, "contention": contention}
    asked = run(graph, cluster=described(figures), what_if=KEPT if kept else AGAIN, **base)

    def by_hand(row: WhatIfRow) -> int:
        """The makespan by values alone, or by the command's own run where all is placed again."""
        cluster, shaped, way, options = described(figures), graph, dict(base), dict[str, Any]()
        if row.what in FIGURES:
            name = FIGURES[row.what]
            twice = row.after == figure_of(described(figures, {name: 2}), row.what)
            cluster = described(figures, {name: 2 if twice else 0.5})
        elif row.what == "protocol":
            cluster = described(figures, protocol=row.after)
        elif row.what == "contention":
            way["contention"] = row.after
        elif row.what == "batch":
            shaped, options["batch"] = with_shapes(graph, batch=int(row.after)), int(row.after)
        else:
            raise AssertionError(row.what)
        if not kept:
            return int(run(graph, cluster=cluster, **way, **options).trace.makespan)
        pieces = partition(shaped, asked.assignment, cluster, step=asked.step)
        how = SimulationOptions(contention=way["contention"])
        return int(simulate(pieces, cluster, estimate(shaped, cluster), how).makespan)

    found = whole(asked)
    assert found.makespan_ns == asked.trace.makespan
    assert {row.what for row in found.rows} == {*FIGURES, "batch", "protocol", "contention"}
    for row in found.rows:
        assert row.placement == (KEPT if kept else AGAIN)
        assert row.makespan_ns == by_hand(row), row


def figure_of(cluster: Cluster, what: str) -> str:
    """The value of a figure as rows show it."""
    return next(one.before for one in scaled(cluster, Fraction(2)) if one.what == what)


def test_a_gpus_host_dispatches_and_a_cpu_launches() -> None:
    """Both words are keys of a description. The launch of a GPU's kernels changes with the dispatch."""

    def described_in_us(dispatch: int, launch: int) -> Cluster:
        return read_toml(
            f"""
            [model.quick]
            type = "GPU"
            memory = "16 GB"
            compute = "10 TFLOP/s"
            bandwidth = "500 GB/s"
            multiprocessors = 80
            dispatch = "{dispatch} us"
            launch = "{launch} us"
            [[host]]
            gpus = "1 quick"
            """,
            "by hand",
        )

    rows = {row.what: row for row in scaled(described_in_us(10, 4), Fraction(2))}
    assert {what for what in rows if what.endswith(("dispatch", "launch"))} == {"quick dispatch", "cpu launch"}
    assert (rows["quick dispatch"].before, rows["quick dispatch"].after) == ("10 us", "20 us")
    assert rows["quick dispatch"].cluster.devices == described_in_us(20, 8).devices


def test_cpus_that_share_a_host_change_with_their_model() -> None:
    """A description gives the figure once, for the host that a task has alone and for the one that two tasks share."""
    cluster = load_cluster(json.dumps({"cluster": {"ps": ["a:1"], "worker": ["b:1", "b:2"]}}))
    assert len(cluster.kinds) == 2
    rows = list(scaled(cluster, Fraction(2)))
    assert len({row.what for row in rows}) == len(rows)
    faster = next(row.cluster for row in rows if row.what.endswith(" compute"))
    for before, after in zip(cluster.devices, faster.devices, strict=True):
        assert abs(after.flop_per_s - 2 * before.flop_per_s) <= 1
        assert (after.kind, after.name, after.memory_bytes) == (before.kind, before.name, before.memory_bytes)
    assert shared_anew(faster).devices == faster.devices


@pytest.mark.parametrize(("placement", "how"), [(KEPT, {"budget": "60"}), (AGAIN, {"algorithm": "heft"})])
def test_other_numbers_of_devices_are_written_in_the_notation_and_placed_again(
    placement: str, how: dict[str, Any]
) -> None:
    base = run(EXAMPLE, cluster="ps=2,worker=1x2gpu", what_if=placement, **how)
    rows = {row.after: row for row in whole(base).rows if row.what == "devices"}
    assert set(rows) == {"ps=1", "ps=3", "worker=2x2gpu", "worker=1x1gpu", "worker=1x3gpu"}
    for part, text in (("worker=1x1gpu", "ps=2,worker=1x1gpu"), ("ps=3", "ps=3,worker=1x2gpu")):
        by_hand = run(EXAMPLE, cluster=text, **how).trace.makespan
        if rows[part].placement == AGAIN:
            assert rows[part].makespan_ns == by_hand
        else:
            assert rows[part].makespan_ns == base.trace.makespan <= by_hand
    refused = rows["ps=1"]
    assert refused.makespan_ns is None
    assert "/job:ps/task:1" in refused.refused
    assert refused.refused.partition(". ")[0] in str(whole(base))


@pytest.mark.parametrize("algorithm", ["heft", "m_etf"])
@pytest.mark.parametrize("cluster", ["2gpu", "worker=2x2gpu"])
def test_more_devices_never_make_a_step_slower(algorithm: str, cluster: str) -> None:
    """Where an algorithm would place it worse on these, the placement stays."""
    asked = whole(run(EXAMPLE, cluster=cluster, ignore_devices=True, algorithm=algorithm, what_if=True))
    more = {"2gpu": ["3gpu"], "worker=2x2gpu": ["worker=2x3gpu", "worker=3x2gpu"]}[cluster]
    rows = [row for row in asked.rows if row.after in more]
    assert len(rows) == len(more)
    for row in rows:
        assert row.makespan_ns is not None
        assert row.makespan_ns <= asked.makespan_ns
        assert ("placed again" in row.remark) == (row.placement == AGAIN)


@pytest.mark.parametrize(
    ("how", "cluster", "text"),
    [("in", "2gpu", "3gpu"), ("between", "ps=2,worker=2x1gpu", "ps=3,worker=2x1gpu"),
     ("between", "ps=2,worker=2x1gpu", "ps=2,worker=3x1gpu")],
)  # fmt: skip
@pytest.mark.parametrize("placement", [KEPT, AGAIN])
def test_a_model_is_copied_anew_for_other_devices(how: str, cluster: str, text: str, placement: str) -> None:
    """The first placement is of another graph, unless the copy that is shown stays as it is."""
    way: dict[str, Any] = {"replicate": how, "ignore_devices": True, "algorithm": "tensorflow"}
    rows = {cluster.replace(row.before, row.after, 1): row for row in whole(
        run(EXAMPLE, cluster=cluster, what_if=placement, **way)).rows if row.what == "devices"}  # fmt: skip
    assert rows[text].makespan_ns == run(EXAMPLE, cluster=text, **way).trace.makespan
    assert rows[text].placement == (KEPT if placement == KEPT and "worker=3" in text else AGAIN)


SMALL: dict[str, Any] = {"cluster": "8gpu", "ignore_devices": True, "batch": 64}


@pytest.fixture(scope="module")
def searched() -> dict[str, WhatIf]:
    asked = {**SMALL, "cluster": "worker=2x4gpu", "budget": "72"}  # so small that rows find more than the run did
    return {how: whole(run(EXAMPLE, what_if=how, **asked)) for how in (KEPT, AGAIN)}


def test_a_search_that_is_made_again_knows_the_placement_of_the_run(searched: dict[str, WhatIf]) -> None:
    """With 1,000 placements links that never wait for each other made the step 8.6 % longer, by chance."""
    own = {(row.figure, row.after): row for row in searched[KEPT].rows}
    for row in searched[AGAIN].rows:
        stays = own[row.figure, row.after].makespan_ns
        assert row.makespan_ns is not None
        assert stays is not None
        assert row.makespan_ns <= stays
        assert (row.placement == KEPT) <= (row.makespan_ns == stays)
    assert {row.placement for row in searched[AGAIN].rows} == {KEPT, AGAIN}
    assert "placed again, or kept where that is no slower" in str(searched[AGAIN])


def test_what_a_search_missed_for_the_run_is_said_beside_the_gains(searched: dict[str, WhatIf]) -> None:
    """Of a gain by another figure nobody could tell how much was the search's chance."""
    [note] = searched[AGAIN].notes
    assert note.startswith("A placement that was found for a row takes 854 us (-0.4%) without its change.")
    assert note in str(searched[AGAIN])
    assert not searched[KEPT].notes
    assert not whole(run(EXAMPLE, algorithm="heft", what_if=AGAIN, **SMALL)).notes


@settings(max_examples=16, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.none() | st.floats(-1, 3)), max_size=12))
def test_rows_of_one_figure_stand_together_and_the_largest_change_comes_first(
    given_rows: list[tuple[str, float | None]],
) -> None:
    rows = [
        WhatIfRow(
            what, "1", str(at), KEPT, False, None if change is None else round(100 + 100 * change), change, change
        )
        for at, (what, change) in enumerate(given_rows)
    ]
    found = ranked(100, KEPT, rows).rows
    assert sorted(found, key=lambda row: int(row.after)) == rows
    order = [row.what for row in found]
    groups = list(dict.fromkeys(order))
    assert order == sorted(order, key=groups.index)
    swings = [
        max((-1 if row.change is None else abs(row.change)) for row in found if row.what == one) for one in groups
    ]
    assert swings == sorted(swings, reverse=True)


def test_measured_times_change_with_the_batch(tmp_path: Path) -> None:
    """They stayed as they were, so another batch took as long as this one."""
    options: dict[str, Any] = {"cluster": "1gpu", "ignore_devices": True, "algorithm": "single"}
    measured = tmp_path / "step.run_metadata.pb"
    estimated = run(EXAMPLE, what_if=True, **options)
    estimated.write(measured)
    found = run(EXAMPLE, what_if=True, costs=measured, **options)

    def batches(result: Result) -> list[tuple[str, int | None]]:
        return [(row.after, row.makespan_ns) for row in whole(result).rows if row.what == "batch"]

    assert len(batches(found)) == 2
    assert batches(found) == batches(estimated)


def test_a_note_counts_the_times_that_no_figure_changes_where_they_were_measured(tmp_path: Path) -> None:
    """Times on a CPU counted for ops that run on a GPU, whose figures change them."""
    (tmp_path / "times.csv").write_text("node,kind,ns\ndense/MatMul,cpu,700\ndense/BiasAdd,cpu,900\n")
    options: dict[str, Any] = {"costs": tmp_path / "times.csv", "ignore_devices": True, "algorithm": "single"}
    assert not whole(run(EXAMPLE, cluster="1gpu", what_if=True, **options)).notes
    assert whole(run(EXAMPLE, cluster="1cpu", what_if=True, **options)).notes == (
        "The times of 2 nodes are measured: no figure of a device changes them.",
    )


def test_a_batch_that_does_not_fit_says_so() -> None:
    small = load_cluster("1gpu")
    devices = [replace(one, memory_bytes=50 * 2**20) if one.type == "GPU" else one for one in small.devices]
    asked = run(
        EXAMPLE, cluster=replace(small, devices=tuple(devices)), ignore_devices=True, what_if=True, algorithm="single"
    )
    remarks = [row.remark for row in whole(asked).rows if row.what == "batch"]
    assert len(remarks) == 2
    assert all("per example" in remark for remark in remarks)
    assert any("out of memory" in remark for remark in remarks)


def test_summary_json_and_words_say_the_same() -> None:
    asked = run(EXAMPLE, cluster="1gpu", ignore_devices=True, what_if=True)
    found = whole(asked)
    assert str(found) in asked.summary()
    written = json.loads(asked.to_json())["what_if"]
    assert written["makespan_ns"] == asked.trace.makespan
    assert [row["makespan_ns"] for row in written["rows"]] == [row.makespan_ns for row in found.rows]
    assert run(EXAMPLE, cluster="1gpu", ignore_devices=True).what_if is None


def test_a_pin_on_a_device_that_the_change_takes_away_is_refused_as_by_hand() -> None:
    def ran(cluster: str, **options: Any) -> Result:
        pins = {"dense": "GPU:1"}
        return run(EXAMPLE, cluster=cluster, pins=pins, ignore_devices=True, algorithm="requested", **options)

    found = ran("cpu=2,gpu=2", what_if=KEPT).what_if
    assert found is not None
    refused = {row.after: row.refused for row in found.rows if row.what == "devices"}
    with pytest.raises(SimvizError) as by_hand:
        ran("cpu=2,gpu=1")
    assert refused["gpu=1"] == str(by_hand.value)
    assert not refused["gpu=3"]


def test_options_that_do_not_fit_are_refused() -> None:
    with pytest.raises(SimvizError, match="kept or made again"):
        run(EXAMPLE, what_if="perhaps")
    with pytest.raises(SimvizError, match="single step"):
        run(EXAMPLE, training="async", what_if=True)


def test_a_step_that_no_change_reaches_has_no_table() -> None:
    """A step of one constant had the headings of a table without rows."""
    made = Rows()
    made.add("two", "Const", dtype=type_attr(), _output_shapes=shapes_attr(()))
    found = run(made.built(), cluster="1cpu", what_if=True).what_if
    assert found is not None
    first, *others = found.lines()
    assert first.startswith("What if?")
    assert [one.partition(" changes")[0] for one in others] == ["Less than 0.05%"]


def test_of_figures_of_one_kind_those_without_a_line_are_told_by_their_value() -> None:
    rows = [
        WhatIfRow("nic bandwidth", before, "9 GB/s", KEPT, False, 100, change, change)
        for before, change in (("1 GB/s", 0.5), ("2 GB/s", 0.0))
    ]
    rows.append(WhatIfRow("pcie latency", "5 us", "9 us", KEPT, False, 100, 0.0, 0.0))
    *_, last = ranked(100, KEPT, rows).lines()
    assert last == "Less than 0.05% changes with nic bandwidth (2 GB/s), pcie latency."
