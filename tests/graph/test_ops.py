import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import GraphError
from simulator.graph import ops, registry
from simulator.graph.dtypes import NAMES, REF
from simulator.graph.messages import AttrValue, FunctionDef, NodeDef
from simulator.limits import CLAIMED, raised
from tests.strategies import type_attr, types_attr

FLOAT, INT32, STRING, BOOL, INT64, RESOURCE, VARIANT = 1, 3, 7, 10, 9, 20, 21


def indices(*values: int) -> Any:
    made = AttrValue()
    made.list.i.extend(values)
    return made


def test_the_facts_say_where_they_come_from() -> None:
    said = json.loads(registry._lines()[0])
    assert said == {"tensorflow": "2.21.0", "ops": 1910, "kernels": 15469, "listed": 15632}
    assert len(registry.names()) == 1910


def test_a_fresh_process_reads_the_file_once_and_parses_only_what_it_is_asked_for() -> None:
    code = (
        "from simulator.graph import ops\n"
        "from simulator.graph import registry\n"
        "before = registry._lines.cache_info().misses\n"
        "ops.kernel_types('MatMul', {}); ops.kernel_types('Conv2D', {})\n"
        "print(before, registry._lines.cache_info().misses, registry.facts.cache_info().currsize)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("op", "attrs", "inputs", "outputs"),
    [
        ("MatMul", {"T": type_attr(FLOAT)}, (FLOAT, FLOAT), (FLOAT,)),
        ("NoOp", {}, (), ()),
        ("Split", {"T": type_attr(FLOAT), "num_split": AttrValue(i=3)}, (INT32, FLOAT), (FLOAT, FLOAT, FLOAT)),
        (
            "ConcatV2",
            {"T": type_attr(FLOAT), "N": AttrValue(i=2)},
            (FLOAT, FLOAT, INT32),
            (FLOAT,),
        ),  # Tidx has a default
        ("Assign", {"T": type_attr(FLOAT)}, (FLOAT + 100, FLOAT), (FLOAT + 100,)),
        ("IdentityN", {"T": types_attr(FLOAT, INT32)}, (FLOAT, INT32), (FLOAT, INT32)),
        ("IdentityN", {"T": types_attr()}, (), ()),
        ("Switch", {"T": type_attr(FLOAT)}, (FLOAT, BOOL), (FLOAT, FLOAT)),
        ("Merge", {"T": type_attr(INT64), "N": AttrValue(i=2)}, (INT64, INT64), (INT64, INT32)),
        ("MatMul", {}, (0, 0), (0,)),  # the type is unknown, the number of inputs is not
        ("MatMul", {"T": AttrValue(placeholder="T")}, (0, 0), (0,)),
        ("Split", {"T": type_attr(FLOAT)}, (INT32, FLOAT), None),
        ("Split", {"T": type_attr(FLOAT), "num_split": AttrValue(f=2.0)}, (INT32, FLOAT), None),  # of the wrong kind
        ("NoSuchOp", {}, None, None),
    ],
)
def test_inputs_and_outputs(
    op: str, attrs: Mapping[str, Any], inputs: tuple[int, ...], outputs: tuple[int, ...] | None
) -> None:
    assert ops.inputs(op, attrs, {}) == inputs
    assert ops.outputs(op, attrs, {}) == outputs


def test_ranges_of_output_arguments() -> None:
    fused = ops.output_ranges("FusedBatchNormV3", {"T": type_attr(FLOAT), "U": type_attr(FLOAT)}, {})
    assert fused is not None
    assert fused[:2] == (("y", 0, 1), ("batch_mean", 1, 2))
    assert ops.output_ranges("Split", {"num_split": AttrValue(i=3)}, {}) == (("output", 0, 3),)
    assert ops.output_ranges("NoSuchOp", {}, {}) is None


def a_function() -> Any:
    function = FunctionDef()
    function.signature.name = "pairs"
    function.signature.attr.add(name="T", type="type")
    function.signature.attr.add(name="N", type="int")
    function.signature.input_arg.add(name="many", type_attr="T", number_attr="N")
    function.signature.input_arg.add(name="count", type=INT32)
    function.signature.output_arg.add(name="all", type_attr="T", number_attr="N")
    return function


def test_a_library_function_is_an_op() -> None:
    library = {"pairs": a_function()}
    attrs = {"T": type_attr(RESOURCE), "N": AttrValue(i=2)}
    assert ops.inputs("pairs", attrs, library) == (RESOURCE, RESOURCE, INT32)
    assert ops.outputs("pairs", attrs, library) == (RESOURCE, RESOURCE)
    assert ops.output_ranges("pairs", attrs, library) == (("all", 0, 2),)
    assert ops.inputs("pairs", {"T": type_attr(FLOAT)}, library) is None
    assert ops.kernel_types("pairs", attrs) == (("GPU", 0), ("CPU", 0))
    assert ops.host_memory("pairs", attrs, "GPU", library) == (frozenset((0, 1, 2)), frozenset((0, 1)))
    assert not ops.known("pairs")


def test_a_signature_that_counts_by_an_attribute_of_an_odd_kind_is_unknown() -> None:
    odd = a_function()
    odd.signature.attr[1].type = "no such kind"
    assert ops.inputs("pairs", {"T": type_attr(FLOAT), "N": AttrValue(i=2)}, {"pairs": odd}) is None


@pytest.mark.parametrize("count", [CLAIMED.default + 1, 2**62])
def test_absurd_numbers_of_arguments_are_refused(count: int) -> None:
    attrs = {"T": type_attr(FLOAT), "num_split": AttrValue(i=count)}
    with pytest.raises(GraphError, match=r"num_split.*--limit claimed=N takes more"):
        ops.outputs("Split", attrs, {})
    if count < CLAIMED.end:
        with raised({"claimed": count}):
            assert len(ops.outputs("Split", attrs, {}) or ()) == count
        with pytest.raises(GraphError, match="num_split"):  # what was taken once is no precedent
            ops.outputs("Split", attrs, {})


@given(dtype=st.integers(-(2**31), 2**31 - 1) | st.integers(-1, 210), op=st.sampled_from(("VariableV2", "Identity")))
def test_a_number_that_is_no_type_s_is_unknown(dtype: int, op: str) -> None:
    attr = {"VariableV2": "dtype", "Identity": "T"}[op]
    (found,) = ops.outputs(op, {attr: type_attr(dtype)}, {}) or (0,)
    assert found in (0, dtype, dtype + REF)
    assert found == 0 or found in NAMES


def test_a_negative_number_of_arguments_is_none() -> None:
    assert ops.outputs("Split", {"T": type_attr(FLOAT), "num_split": AttrValue(i=-5)}, {}) == ()


@pytest.mark.parametrize(
    ("op", "attrs", "expected"),
    [
        ("MatMul", {"T": type_attr(FLOAT)}, (("GPU", 0), ("CPU", 0))),
        ("MatMul", {"T": type_attr(STRING)}, ()),
        ("MatMul", {}, (("GPU", 0), ("CPU", 0))),  # T is missing: counts as matching
        ("Const", {"dtype": type_attr(STRING)}, (("CPU", 0),)),
        ("Const", {"dtype": type_attr(FLOAT)}, (("GPU", 0), ("CPU", 0))),
        ("IteratorGetNext", {}, (("CPU", 2), ("GPU", 1))),  # priorities turn the order round
        (
            "GatherNd",
            {"Tparams": type_attr(STRING), "Tindices": type_attr(INT32)},
            (("CPU", 0),),
        ),  # bad_indices_policy: ""
        ("Shape", {"T": type_attr(INT32), "out_type": type_attr(INT32)}, (("GPU", 0), ("CPU", 0))),  # DEFAULT
        ("ReaderReadV2", {}, (("CPU", 0),)),
        ("NoSuchOp", {"T": type_attr(STRING)}, (("GPU", 0), ("CPU", 0))),
        ("_MklConv2D", {"T": type_attr(FLOAT)}, ()),  # its kernels carry a label
        ("TPUCompilationResult", {}, ()),
    ],
)
def test_device_types_that_have_a_kernel(
    op: str, attrs: Mapping[str, Any], expected: tuple[tuple[str, int], ...]
) -> None:
    assert ops.kernel_types(op, attrs) == expected


def test_a_label_chooses_among_kernels() -> None:
    labelled = {"T": type_attr(FLOAT), "_kernel": AttrValue(s=b"no such label")}
    assert ops.kernel_types("MatMul", labelled) == ()


def test_only_the_device_types_that_are_there_count() -> None:
    complex64 = {"Tcomplex": type_attr(8)}
    assert ops.support("FFTND", complex64).types == (("GPU", 1),)
    assert ops.support("FFTND", complex64, ("CPU",)) == ((), False, "")  # nothing is registered for it
    strings = {"T": type_attr(STRING)}
    assert ops.support("MatMul", strings, ("CPU",)) == ((), True, "")  # something is, for other types
    assert ops.support("a custom op", {}, ("CPU",)).types == (("CPU", 0),)


def test_a_constraint_on_an_attribute_that_the_op_does_not_have_is_told() -> None:
    assert ops.support("TopK", {"T": type_attr(FLOAT)}).undeclared == "index_type"
    assert ops.support("TopK", {"T": type_attr(STRING)}).undeclared == ""  # another attribute rules the kernels out
    assert ops.support("TopKV2", {"T": type_attr(FLOAT)}).undeclared == ""


def test_no_two_kernels_of_equal_priority_can_match() -> None:
    """TensorFlow would refuse a node that both match, and `support` would have to."""
    for op in registry.names():
        kernels = registry.registered(op).kernels
        for row, one in enumerate(kernels):
            for other in kernels[row + 1 :]:
                if (one.device_type, one.label, one.priority) == (other.device_type, other.label, other.priority):
                    theirs = dict(other.constraints)
                    shared = [allowed & theirs[name] for name, allowed in one.constraints if name in theirs]
                    assert not all(shared), (op, one, other)


@pytest.mark.parametrize(
    ("op", "holds"),
    [
        ("RangeDataset", "*"),
        ("MutexLock", "*"),
        ("TensorListReserve", "element_dtype"),
        ("OptionalFromValue", "Toutput_types"),
        ("RaggedTensorToVariant", "Tvalues"),
        ("IdentityN", ""),
        ("Shape", ""),
    ],
)
def test_which_variants_live_on_the_host(op: str, holds: str) -> None:
    assert registry.registered(op).host_variant == holds


def test_every_element_of_a_list_must_be_allowed() -> None:
    def where(*taken: int) -> tuple[tuple[str, int], ...]:
        return ops.kernel_types("EagerPyFunc", {"Tin": types_attr(*taken), "Tout": types_attr(FLOAT)})

    assert where(FLOAT, INT64) == (("GPU", 0), ("CPU", 0))
    assert where(FLOAT, STRING) == (("CPU", 0),)  # its DEFAULT registration admits numbers only
    assert where() == (("GPU", 0), ("CPU", 0))


@pytest.mark.parametrize(
    ("op", "attrs", "device_type", "inputs", "outputs"),
    [
        ("Reshape", {"T": type_attr(FLOAT)}, "GPU", {1}, set()),
        ("Reshape", {"T": type_attr(FLOAT)}, "CPU", {1}, set()),  # CPU kernels declare host arguments too
        ("Shape", {"T": type_attr(FLOAT)}, "GPU", set(), {0}),
        ("MatMul", {"T": type_attr(FLOAT)}, "GPU", set(), set()),
        ("Identity", {"T": type_attr(STRING)}, "CPU", {0}, {0}),
        ("ReadVariableOp", {"dtype": type_attr(FLOAT)}, "GPU", {0}, set()),  # a resource
        ("Switch", {"T": type_attr(FLOAT)}, "CPU", {1}, set()),
        ("Switch", {"T": type_attr(INT32)}, "GPU", {0, 1}, {0, 1}),
        ("Identity", {"T": type_attr(VARIANT)}, "GPU", set(), set()),
        ("ReaderReadV2", {}, "GPU", {0, 1}, {0, 1}),  # no kernel there
        ("PartitionedCall", {"Tin": types_attr(FLOAT, INT32), "Tout": types_attr(INT32, STRING)}, "GPU", {1}, {0, 1}),
        ("NoSuchOp", {}, "GPU", set(), set()),
        ("MatMul", {"T": type_attr(FLOAT), "_input_hostmem": indices(1, 9, -1)}, "GPU", {1}, set()),
        ("MatMul", {"T": type_attr(FLOAT), "_output_hostmem": indices(0)}, "GPU", set(), {0}),
    ],
)
def test_what_lies_in_host_memory(
    op: str, attrs: Mapping[str, Any], device_type: str, inputs: set[int], outputs: set[int]
) -> None:
    found = ops.host_memory(op, attrs, device_type, {})
    assert found == (frozenset(inputs), frozenset(outputs))


def test_missing_attributes_can_be_counted() -> None:
    assert ops.missing_attrs("MatMul", {}) == ("T",)
    assert ops.missing_attrs("MatMul", {"T": type_attr(FLOAT)}) == ()
    assert ops.missing_attrs("ConcatV2", {}) == ("N", "T")  # Tidx has a default
    assert ops.missing_attrs("NoSuchOp", {}) == ()


def test_state_and_defaults() -> None:
    assert ops.is_stateful("VarHandleOp")
    assert not ops.is_stateful("MatMul")
    assert not ops.is_stateful("NoSuchOp")
    assert ops.defaults("MatMul")["transpose_a"] is False
    assert ops.defaults("Conv2D")["dilations"] == (1, 1, 1, 1)
    assert ops.defaults("NoSuchOp") == {}


def kinds_of(op: str) -> Mapping[str, str]:
    facts = registry.facts(op)
    assert facts is not None
    return facts.attrs


@given(op=st.sampled_from(registry.names()), dtype=st.sampled_from([FLOAT, INT32, STRING, RESOURCE]))
def test_a_protobuf_map_and_a_dict_of_messages_mean_the_same(op: str, dtype: int) -> None:
    node = NodeDef(name="n", op=op)
    for name, kind in kinds_of(op).items():
        if kind == "type":
            node.attr[name].type = dtype
        elif kind == "int":
            node.attr[name].i = 2
        elif kind == "list(type)":
            node.attr[name].list.type.extend([dtype, FLOAT])
    before = len(node.attr)
    as_dict = dict(node.attr)
    alone: tuple[Callable[..., object], ...] = (ops.kernel_types, ops.missing_attrs)
    for ask in alone:
        assert ask(op, node.attr) == ask(op, as_dict)
    with_functions: tuple[Callable[..., object], ...] = (ops.inputs, ops.outputs, ops.output_ranges)
    for ask in with_functions:
        assert ask(op, node.attr, {}) == ask(op, as_dict, {})
    assert len(node.attr) == before  # asking a map for what it lacks must not fill it


@given(op=st.sampled_from(registry.names()), device_type=st.sampled_from(ops.DEVICE_TYPES))
def test_slots_in_host_memory_exist(op: str, device_type: str) -> None:
    attrs = {name: type_attr(FLOAT) for name, kind in kinds_of(op).items() if kind == "type"}
    given_types, taken = ops.inputs(op, attrs, {}), ops.outputs(op, attrs, {})
    slots, ports = ops.host_memory(op, attrs, device_type, {})
    assert all(0 <= slot < len(given_types or ()) for slot in slots)
    assert all(0 <= port < len(taken or ()) for port in ports)
