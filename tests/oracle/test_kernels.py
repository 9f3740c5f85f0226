import base64
import json
from pathlib import Path
from typing import Any

import pytest

from simulator.errors import OracleError
from simulator.graph import ops, registry
from simulator.graph.messages import NodeDef
from simulator.oracle import child, registries
from tests.oracle.forking import printed

SHIPPED = registry.file_of(registry.TENSORFLOW)


@pytest.fixture(scope="module")
def cases() -> Any:
    """Every op of the installed TensorFlow, sampled: (node, what TensorFlow says)."""
    written = json.loads(child.run("tests.oracle.registries", b"7", timeout_s=120))
    return [(NodeDef.FromString(base64.b64decode(case.pop("node"))), case) for case in written]


@pytest.mark.tensorflow
def test_the_shipped_file_is_what_the_installed_tensorflow_gives(tmp_path: Path) -> None:
    made = tmp_path / "registry.gz"
    assert printed("simulator.oracle.registries", "-o", str(made)) == []
    assert made.read_bytes() == SHIPPED.read_bytes()


@pytest.mark.tensorflow
def test_every_op_is_known_and_its_state_too(cases: Any) -> None:
    assert len({node.op for node, _ in cases}) == len(registry.names())
    assert all(ops.known(node.op) for node, _ in cases)
    assert [node.op for node, says in cases if ops.is_stateful(node.op) != says["stateful"]] == []


@pytest.mark.tensorflow
def test_inputs_and_outputs_are_those_of_the_imported_node(cases: Any) -> None:
    compared = [(node, says["types"]) for node, says in cases if says["types"]]
    assert len(compared) > 0.5 * len(cases)
    for node, types in compared:
        assert list(ops.inputs(node.op, node.attr, {}) or ()) == types["inputs"], node
        assert list(ops.outputs(node.op, node.attr, {}) or ()) == types["outputs"], node


@pytest.mark.tensorflow
@pytest.mark.parametrize("kind", ["CPU", "GPU"])
def test_kernels_and_host_memory_follow_the_registrations(cases: Any, kind: str) -> None:
    with_kernel = 0
    for node, says in cases:
        expected = says["kernels"][kind]
        assert dict(ops.kernel_types(node.op, node.attr)).get(kind) == expected["priority"], node
        host = ops.host_memory(node.op, node.attr, kind, {})
        assert [sorted(side) for side in host] == expected["host"], (node, kind)
        with_kernel += expected["priority"] is not None
    assert with_kernel > {"CPU": 2500, "GPU": 1000}[kind]  # of 5,730: many draws are of types without a kernel


def test_a_wheel_without_gpu_kernels_is_refused() -> None:
    with pytest.raises(OracleError, match="full `tensorflow` wheel"):
        registries.refuse_without_gpu([], "2.21.0")


def test_the_file_depends_on_nothing_but_the_registries() -> None:
    assert registries.encode([], [], "0") == registries.encode([], [], "0")


def test_each_release_has_a_file_of_its_own_and_the_shipped_one_says_which_it_is() -> None:
    assert registry.file_of("2.20.0").name == "registry_2.20.gz"
    assert registry.file_of(registry.TENSORFLOW) == SHIPPED
    assert json.loads(registry._lines()[0])["tensorflow"].startswith(registry.TENSORFLOW + ".")
