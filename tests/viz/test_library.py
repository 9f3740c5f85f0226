"""The command as one call: its keywords are the options, and it neither prints nor writes unasked."""

import inspect
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator import Cluster, CostTable, Graph, estimate, load, load_cluster
from simulator.errors import ClusterError, GraphError, SimvizError
from simulator.graph.graph import Shape, Signature
from tests.fuzzing.materials import profiles
from tests.strategies import Rows, typed
from viz import compare, run
from viz.command.cli import main
from viz.command.library import _OPTIONS
from viz.command.options import parser
from viz.scene import Scene

GRAPH = str(Path(__file__).parents[2] / "examples" / "ps_training.pbtxt")
OF_THE_COMMAND = {
    "calibrate",
    "help",
    "graph",
    "output",
    "picture",
    "json",
    "quiet",
    "verbose",
    "version",
    "warm_up",
    "compare",
}  # no use in a call


def test_each_option_is_a_keyword_with_the_same_default() -> None:
    keywords = {
        _OPTIONS.get(name, name): one.default
        for name, one in inspect.signature(run).parameters.items()
        if one.kind == 3
    }
    options = {name: one for name, one in vars(parser().parse_args([])).items() if name not in OF_THE_COMMAND}
    options.pop("hard", None)
    assert keywords.keys() == options.keys()
    assert {name: one or None for name, one in keywords.items()} == {name: one or None for name, one in options.items()}


def command(tmp_path: Path, *arguments: str) -> Any:
    assert main([GRAPH, *arguments, "--json", str(tmp_path / "told.json"), "--quiet"]) == 0
    return json.loads((tmp_path / "told.json").read_text())


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [
        ("", {}),
        (
            "--cluster ps=2,worker=1x2gpu --algorithm single --hard",
            {"cluster": "ps=2,worker=1x2gpu", "algorithm": "single", "soft": False},
        ),
        ("--feed images=64,28,28,1 --feed labels=64", {"feeds": {"images": (64, 28, 28, 1), "labels": [64]}}),
        ("--feed images=64,28,28,1 --feed labels=64", {"feeds": ["images=64,28,28,1", "labels=64"]}),
        ("--fetch logits/BiasAdd:0", {"fetches": "logits/BiasAdd:0"}),
        ("--fetch train --fetch logits/BiasAdd:0", {"fetches": ("train", "logits/BiasAdd:0")}),
        (
            "--cluster ps=2,worker=3 --training sync:aggregate=2 --steps 4 --disturb worker:0=slow:2.0 "
            "--workers 1,2 --gap 1ms --seed 3 --engine python",
            {
                "cluster": "ps=2,worker=3",
                "training": "sync:aggregate=2",
                "steps": 4,
                "disturb": "worker:0=slow:2.0",
                "workers": (1, 2),
                "gap": "1ms",
                "seed": 3,
                "engine": "python",
            },
        ),
        (
            "--cluster ps=2,worker=2 --training async --steps 3 --input feed=1200/s",
            {"cluster": "ps=2,worker=2", "training": "async", "steps": 3, "inputs": {"feed": "1200/s"}},
        ),
        (
            "--cluster ps=2,worker=2 --order tensorflow --contention fair --protocol rdma --recv-scheduling whitepaper",
            {
                "cluster": load_cluster("ps=2,worker=2"),
                "order": "tensorflow",
                "contention": "fair",
                "protocol": "rdma",
                "recv_scheduling": "whitepaper",
            },
        ),
    ],
)
def test_a_call_gives_what_the_command_gives(tmp_path: Path, arguments: str, keywords: dict[str, Any]) -> None:
    assert json.loads(run(GRAPH, **keywords).to_json()) == command(tmp_path, *arguments.split())


class Named:
    """As a tensor or an operation of TensorFlow is: its text is not its name."""

    name = "images:0"


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (
            {"feeds": {"images": np.array([64, 28, 28, 1]), "labels": np.array([64])}},
            {"feeds": ["images=64,28,28,1", "labels=64"]},
        ),
        ({"feeds": {Named(): (64, 28, 28, 1)}}, {"feeds": "images:0=64,28,28,1"}),
        ({"fetches": Named()}, {"fetches": "images:0"}),
        ({"fetches": [Named(), "train"]}, {"fetches": ["images:0", "train"]}),
        *(
            (
                {"training": "async", "steps": 2, "inputs": {"feed": rate}},
                {"training": "async", "steps": 2, "inputs": "feed=1200/s"},
            )
            for rate in (1200, np.int64(1200))
        ),
        ({"training": "async", "steps": 2, "inputs": 1200.5}, {"training": "async", "steps": 2, "inputs": "1200.5/s"}),
    ],
)
def test_values_of_tensorflow_and_numpy_are_taken_as_their_texts(values: dict[str, Any], texts: dict[str, Any]) -> None:
    cluster = "ps=2,worker=2"
    assert run(GRAPH, cluster=cluster, **values).to_json() == run(GRAPH, cluster=cluster, **texts).to_json()


def twice_as_long(graph: Graph, cluster: Cluster) -> CostTable:
    usual = estimate(graph, cluster)
    return replace(usual, run_ns=np.where(usual.run_ns > 0, 2 * usual.run_ns, usual.run_ns))


def test_a_cost_model_prices_steps_and_trainings() -> None:
    how: dict[str, Any] = {"cluster": "ps=2,worker=1x1gpu", "algorithm": "single"}
    found, usual = run(GRAPH, costs=twice_as_long, **how), run(GRAPH, **how)
    busy = usual.costs.run_ns > 0
    assert (found.costs.run_ns[busy] == 2 * usual.costs.run_ns[busy]).all()
    assert found.trace.makespan > usual.trace.makespan
    assert "The cost model twice_as_long prices the ops, not simviz's own." in found.summary(verbose=True)
    assert found.command is None  # no command has it
    runs = int(found.step.runs.sum())
    assert json.loads(found.to_json())["counts"]["model_costs"] == runs
    assert compare(usual, found).unlike == {"modelled ops": ("0", str(runs))}
    trained = run(GRAPH, costs=twice_as_long, training="async", steps=3, **how)
    assert trained.costs.run_ns.max() == found.costs.run_ns.max()


def test_a_profile_beside_a_cost_model_prices_no_op_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "host.toml").write_bytes(profiles()[0])
    how: dict[str, Any] = {"cluster": "ps=2,worker=1", "algorithm": "single", "costs": twice_as_long}
    found = run(GRAPH, profile=tmp_path / "host.toml", **how)
    assert (found.costs.run_ns == run(GRAPH, **how).costs.run_ns).all()
    assert "prices no op, as the cost model does" in found.summary(verbose=True)


def test_other_runs_beside_it_have_the_same_cost_model() -> None:
    how: dict[str, Any] = {"cluster": "2gpu", "ignore_devices": True, "algorithm": "single"}
    found = run(GRAPH, costs=twice_as_long, what_if=True, against="whitepaper", **how)
    assert isinstance(found.against, Scene)
    assert (found.against.costs.run_ns == found.costs.run_ns).all()
    assert found.what_if is not None
    fewer = next(row for row in found.what_if.rows if row.after == "1gpu")
    assert fewer.makespan_ns == run(GRAPH, costs=twice_as_long, **{**how, "cluster": "1gpu"}).trace.makespan


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda graph, cluster: {}, "cost model '<lambda>' returned a dict, not a simulator.CostTable"),
        (lambda graph, cluster: 1 // 0, "cost model '<lambda>' failed: ZeroDivisionError"),
        (lambda graph, cluster: estimate(graph, load_cluster("1t4")), "has no times on 'cpu'|has no times on 'a100'"),
        (lambda graph, cluster: estimate(load(b'node { name: "a" op: "NoOp" }'), cluster), "of a graph of 1 nodes"),
    ],
)
def test_what_is_no_table_of_the_graph_is_refused_with_the_models_name(model: Any, words: str) -> None:
    with pytest.raises(SimvizError, match=words):
        run(GRAPH, cluster="ps=2,worker=1x1gpu", algorithm="single", costs=model)


def test_nothing_is_printed_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = run(Path(GRAPH), cluster="ps=2,worker=1x2gpu")
    assert "One step" in found.summary()
    assert "makespan" in found.summary(verbose=True)
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []
    found.write("a.html", tmp_path / "a.dot")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.dot", "a.html"]


@pytest.mark.parametrize("other", [(4, 3), (-1, 3)])
@pytest.mark.parametrize("signature", ["serve", "learn"])
def test_another_batch_is_that_of_the_step_and_not_of_other_signatures(other: Shape, signature: str) -> None:
    """A model is served with one batch and trained with another: that of most inputs was changed alone."""
    made, sides = Rows(), {"serve": (4, 3), "learn": (32, 3), "other": other, "another": other}
    for name, shape in sides.items():
        made.add(name, "Placeholder", **typed("Placeholder", shape))
        made.add(f"{name}/end", "Relu", [name], **typed("Relu", None))
    named = {name: Signature({"x": f"{name}:0"}, {"y": f"{name}/end:0"}) for name in sides}
    found = run(made.built(signatures=named), signature=signature, batch=8, cluster="1cpu", algorithm="single")
    (fed,), (end,) = found.step.feeds, found.step.fetches
    assert (fed, end) == (f"{signature}:0", f"{signature}/end:0")
    rows = [found.graph.outputs(found.graph.index[name.partition(":")[0]])[0] for name in (fed, end)]
    assert [found.graph.tensor_shape[row] for row in rows] == [(8, 3), (8, 3)]


def test_a_path_offers_the_same_command_as_its_text(tmp_path: Path) -> None:
    """A graph in memory offers none, as nobody could read it."""
    times = tmp_path / "times.csv"
    times.write_text("node,kind,ns\n" + "".join(f"{name},CPU,1000\n" for name in load(GRAPH).names))
    profile = tmp_path / "host.toml"
    profile.write_bytes(profiles()[0])
    given = {"cluster": "ps=2,worker=2", "algorithm": "requested"}
    by_text = run(GRAPH, costs=str(times), profile=str(profile), **given)  # type: ignore[arg-type]  # keywords
    by_path = run(Path(GRAPH), costs=times, profile=profile, **given)  # type: ignore[arg-type]  # keywords
    assert by_path.command == by_text.command
    assert str(profile) in str(by_path.command)
    assert run(load(GRAPH), **given).command is None  # type: ignore[arg-type]  # keywords


def test_a_loaded_graph_is_taken_as_it_is() -> None:
    alike = run(load(GRAPH), cluster="ps=2,worker=1x2gpu"), run(GRAPH, cluster="ps=2,worker=1x2gpu")
    assert alike[0].to_json() == alike[1].to_json()


def test_readmes_lines_give_the_commands_nanoseconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(GRAPH).parents[1]
    (code,) = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(root / "examples")
    exec(code, {})
    assert capsys.readouterr().out == f"{command(tmp_path, '--cluster', 'ps=2,worker=1x2gpu')['makespan_ns']} ns\n"


@pytest.mark.parametrize(
    ("keywords", "error", "words"),
    [
        ({"order": "lifo"}, SimvizError, "lifo"),
        ({"feeds": {"images": (None, 28, 28, 1)}}, SimvizError, "--feed: 'images=None,28,28,1' is not of the form"),
        ({"feeds": {"imagse": (1, 28, 28, 1)}}, GraphError, "no node 'imagse'"),
        ({"cluster": 7}, ClusterError, "7 describes no cluster"),
        ({"steps": 3}, SimvizError, "add --training async"),
        ({"soft": "no"}, SimvizError, "soft is 'no'; give True or False"),
        ({"soft": None}, SimvizError, "soft is None; give True or False"),
        ({"keep_calls": 1}, SimvizError, "keep_calls is 1; give True or False"),
        ({"ignore_devices": "x"}, SimvizError, "ignore_devices is 'x'; give True or False"),
        ({"batch": True}, SimvizError, "batch is True; give a natural number or None"),
        ({"training": True}, SimvizError, "training is True; give a text or None"),
        ({"batch": -3}, SimvizError, "batch is -3; give a natural number or None"),
        ({"batch": 0}, SimvizError, "a batch is a number from 1"),
        ({"algorithm": "hefft"}, SimvizError, "no algorithm 'hefft'.*Did you mean 'heft'"),
    ],
)
def test_what_is_wrong_is_an_error_of_simviz(keywords: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        run(GRAPH, **keywords)


@pytest.mark.parametrize(("name", "says"), [("a.jpg", "the suffix is the format"), ("a.json", "result.to_json()")])
def test_nothing_is_written_if_one_file_cannot_be(tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(SimvizError, match=re.escape(says)):
        run(GRAPH, cluster="ps=2,worker=1x2gpu").write(tmp_path / "a.html", tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [3, None, b"a.html"])
def test_a_file_to_write_is_a_text_or_a_path(path: object) -> None:
    with pytest.raises(SimvizError, match=r"a file to write is .*; give a text or a path"):
        run(GRAPH, cluster="ps=2,worker=1x2gpu").write(path)  # type: ignore[arg-type]  # no path


def test_a_file_needs_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([GRAPH, "--json="]) == 2
    assert "The name of a file to write is empty" in capsys.readouterr().err
