"""A step in microbatches by the command: the best number, measured times, what is told, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placement.search.judge import Candidate, Judge
from simulator import load_cluster
from simulator.columns import Ids
from simulator.errors import GraphError, SimvizError
from simulator.execution.memory import out_of_memory
from simulator.graph.graph import Graph
from simulator.graph.graph_def import graph_def
from tests.training.pipelines.chain import chain
from tests.viz.scenes import EXAMPLE
from viz import run
from viz.command.pipelining import COUNTS
from viz.pipelined import Pipelined

QUICK = {"algorithm": "requested", "cluster": "4gpu"}


@pytest.fixture(scope="module")
def wide() -> Graph:
    """Layers that are long enough for a pipeline to pay."""
    return chain(8, 4096, width=2048)


def told(result: object) -> Pipelined:
    found = result.pipelined  # type: ignore[attr-defined]
    assert isinstance(found, Pipelined)
    return found


def test_the_number_that_is_asked_for_is_shown(wide: Graph) -> None:
    result = run(wide, cluster="4gpu", microbatches=8, pipeline="gpipe", budget=50)
    found = told(result)
    assert found.made is not None
    assert "Pipeline: 8 microbatches of 512 examples over 4 stages, gpipe." in result.summary()
    facts = json.loads(result.to_json())["pipelined"]
    assert (facts["microbatches"], facts["order"], facts["tried"], facts["held"]) == (8, "gpipe", [], [8] * 4)
    assert facts["stages"] == [f"/job:localhost/task:0/device:GPU:{at}" for at in range(4)]
    assert any(note.startswith("8 microbatches of 512") for note in result.notes)


def test_the_best_number_is_found_and_its_gain_told() -> None:
    wide = chain(8, 4096, width=3072)  # a product grows faster than what passes between stages
    result, plain = run(wide, cluster="4gpu", microbatches="auto", budget=50), run(wide, cluster="4gpu", budget=50)
    found = told(result)
    assert [one.microbatches for one in found.tried[:4]] == [1, *COUNTS]
    assert [one.stages for one in found.tried[:5]] == [0, 4, 4, 4, 2]
    assert found.tried[0].makespan_ns == plain.trace.makespan
    assert result.trace.makespan == min(one.makespan_ns for one in found.tried if one.makespan_ns is not None)
    assert plain.trace.makespan > 1.3 * result.trace.makespan
    assert f"{plain.trace.makespan / result.trace.makespan:.3g} times as long" in result.summary()
    assert plain.pipelined is None


@pytest.mark.parametrize("cluster", ["1v100,1t4", "worker=2x1gpu"])
def test_starts_of_a_search_leave_microbatches_on_their_stages(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what a minimum cut brings to a CPU, and layers that are packed."""
    judge, seen = Judge.judge, Counter[str]()

    def checked(self: Judge, how: str, device: Sequence[int], ops: Ids | None = None) -> Candidate:
        seen[how] += 1
        assert all(int(at) in some for at, some in zip(device, self.decisions.problem.allowed, strict=True))
        return judge(self, how, device, ops)

    monkeypatch.setattr(Judge, "judge", checked)
    made = [run(chain(4, 64), cluster=cluster, microbatches=2, budget=200) for _ in range(2)]
    assert seen["minimum cut"]
    assert seen["packed layers"]
    assert made[0].trace.makespan == made[1].trace.makespan
    assert (made[0].assignment.device == made[1].assignment.device).all()
    listed = run(chain(4, 64), cluster=cluster, microbatches=2, algorithm="heft")
    assert made[0].trace.makespan <= listed.trace.makespan


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(2, 6), st.sampled_from([12, 16, 64]), st.sampled_from(["2gpu", "3gpu", "1cpu", "worker=2x1gpu"]))
def test_what_is_shown_is_never_worse_than_the_plain_step(layers: int, batch: int, cluster: str) -> None:
    graph = chain(layers, batch)
    result = run(graph, cluster=cluster, microbatches="auto", algorithm="heft")
    plain = run(graph, cluster=cluster, algorithm="heft")
    full = [out_of_memory(one.trace, one.partitions, one.cluster) is not None for one in (result, plain)]
    assert (full[0], result.trace.makespan) <= (full[1], plain.trace.makespan)


def test_measured_times_of_the_batch_are_scaled_to_microbatches(wide: Graph, tmp_path: Path) -> None:
    measured = tmp_path / "times.csv"
    measured.write_text("node,kind,ns\nlayer3,a100,8000000\nupdate3,a100,700000\n")
    plain = run(wide, **QUICK, costs=measured)  # type: ignore[arg-type]
    made = run(wide, **QUICK, costs=measured, microbatches=8)  # type: ignore[arg-type]
    estimated = [run(wide, **QUICK), run(wide, **QUICK, microbatches=8)]  # type: ignore[arg-type]

    def time(result: object, name: str) -> int:
        costs, graph = result.costs, result.graph  # type: ignore[attr-defined]
        return int(costs.run_ns[graph.row(name), costs.kinds.index("a100")])

    assert time(plain, "layer3") == 8_000_000
    part = time(estimated[1], "layer3") / time(estimated[0], "layer3")
    assert 1 / 8 < part < 0.5
    for name in ("layer3", "microbatch_5/layer3"):
        assert time(made, name) == pytest.approx(8_000_000 * part, rel=1e-6)
    assert time(made, "update3") == 700_000
    assert time(made, "layer2") == time(estimated[1], "layer2")


@pytest.mark.parametrize("count", [2, 4])
def test_times_of_the_microbatches_themselves_stay_as_they_are(wide: Graph, count: int, tmp_path: Path) -> None:
    """What a session of the written pipeline took has names of microbatches."""
    path = tmp_path / "made.run_metadata.pb"
    made = run(wide, **QUICK, microbatches=count)  # type: ignore[arg-type]
    made.write(path)
    again = run(wide, **QUICK, microbatches=count, costs=path)  # type: ignore[arg-type]
    assert again.trace.makespan == made.trace.makespan
    with pytest.raises(SimvizError, match=f"{count} microbatches, and not of the whole batch; give --microbatches"):
        run(wide, **QUICK, costs=path)  # type: ignore[arg-type]
    with pytest.raises(SimvizError, match=f"{count} microbatches, and not of 8; give --microbatches {count}"):
        run(wide, **QUICK, microbatches=8, costs=path)  # type: ignore[arg-type]


def test_a_bias_that_joins_no_kernel_in_microbatches_is_not_scaled_by_that(tmp_path: Path) -> None:
    """In the plain step the estimate has it within its convolution's kernel, ninety times as cheap."""
    measured = tmp_path / "times.csv"
    measured.write_text("node,kind,ns\nconv1/BiasAdd,GPU,20000\nconv1/Conv2D,GPU,40000\n")
    made = run(EXAMPLE, cluster="2gpu", ignore_devices=True, algorithm="requested", microbatches=2, costs=measured)
    for name in ("conv1/BiasAdd", "microbatch_1/conv1/BiasAdd"):
        assert 10_000 <= made.costs.run_ns[made.graph.row(name), made.costs.kinds.index("a100")] <= 20_000


def test_a_pipeline_is_explained_against_the_plain_step(wide: Graph) -> None:
    result = run(wide, **QUICK, microbatches=4, against="plain")  # type: ignore[arg-type]
    assert result.difference is not None
    assert "Against plain" in result.summary()


def test_a_pipeline_that_is_written_is_a_graph_of_its_own(wide: Graph, tmp_path: Path) -> None:
    made = run(wide, **QUICK, microbatches=2)  # type: ignore[arg-type]
    made.write(tmp_path / "made.pb")
    again = run(tmp_path / "made.pb", cluster="4gpu", algorithm="requested")
    assert len(graph_def(again.graph).node) == len(made.graph)
    assert again.trace.makespan == made.trace.makespan


def test_what_has_no_pipeline_shows_the_plain_step_and_says_why() -> None:
    result = run(chain(4, 7), **QUICK, microbatches="auto")  # type: ignore[arg-type]
    assert told(result).made is None
    assert "no pipeline was made" in result.summary()
    with pytest.raises(GraphError, match="can't be divided"):
        run(chain(4, 7), **QUICK, microbatches=2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"microbatches": "many"}, "give a whole number from 2, or auto"),
        ({"microbatches": 1}, "give a whole number from 2, or auto"),
        ({"pipeline": "gpipe"}, "add --microbatches"),
        ({"stages": 2}, "add --microbatches"),
        ({"against": "plain"}, "add --microbatches"),
        ({"microbatches": 2, "stages": 3}, "'2gpu' trains on 2 devices, too few for 3 stages"),
        ({"microbatches": 2, "training": "async"}, "leave out options of trainings"),
        ({"microbatches": 2, "pins": {"layer0": "GPU:0"}}, "leave out --pin"),
        ({"microbatches": 2, "observe": True}, "leave out --observe"),
        ({"microbatches": 2, "refine": True}, "leave out --refine"),
        ({"microbatches": 2, "what_if": True}, "leave out --what-if"),
    ],
)
def test_options_without_a_pipeline_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(SimvizError, match=said):
        run(chain(4, 12), cluster="2gpu", **options)  # type: ignore[arg-type]


def test_a_step_that_fits_in_no_plain_way_fits_in_microbatches(wide: Graph) -> None:
    """Each microbatch holds its own activations alone, so even one stage needs less memory."""
    cluster = load_cluster("1gpu")
    needed = max(run(wide, cluster=cluster, algorithm="single").trace.peak_bytes.tolist())
    gpu = next(at for at, one in enumerate(cluster.devices) if one.type == "GPU")
    devices = [replace(one, memory_bytes=needed * 9 // 10) for one in cluster.devices]
    small = replace(cluster, devices=tuple(devices[gpu] if at == gpu else one for at, one in enumerate(devices)))
    result = run(wide, cluster=small, microbatches="auto", budget=50)
    found = told(result)
    assert found.made is not None
    assert out_of_memory(result.trace, result.partitions, result.cluster) is None
    assert result.trace.makespan < found.tried[0].makespan_ns or not found.tried[0].fits  # type: ignore[operator]
