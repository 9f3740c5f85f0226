"""Device specs: every row of the C++ parser's table, matching, merging."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.devicespec import ANYWHERE, DeviceSpec, compatible, matches, merge, parse, specialise
from simulator.errors import ClusterError, InfeasibleError


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("", DeviceSpec()),
        ("/", DeviceSpec()),
        ("/job:ps", DeviceSpec(job="ps")),
        ("/job:Ps_2", DeviceSpec(job="Ps_2")),
        ("/job:*", DeviceSpec()),
        ("/replica:*", DeviceSpec()),
        ("/task:*", DeviceSpec()),
        ("/replica:2", DeviceSpec(replica=2)),
        ("/task:0", DeviceSpec(task=0)),
        ("/task:00", DeviceSpec(task=0)),
        ("/task:007", DeviceSpec(task=7)),
        ("/task:2147483647", DeviceSpec(task=2**31 - 1)),
        ("/device:GPU", DeviceSpec(type="GPU")),
        ("/device:GPU:3", DeviceSpec(type="GPU", id=3)),
        ("/device:GPU:*", DeviceSpec(type="GPU")),
        ("/device:*", DeviceSpec()),
        ("/device:*:1", DeviceSpec(id=1)),
        ("/device:*:*", DeviceSpec()),
        ("/device:cpu:1", DeviceSpec(type="cpu", id=1)),
        ("/device:XLA_CPU_JIT:0", DeviceSpec(type="XLA_CPU_JIT", id=0)),
        ("/cpu:1", DeviceSpec(type="CPU", id=1)),
        ("/CPU:1", DeviceSpec(type="CPU", id=1)),
        ("/gpu:1", DeviceSpec(type="GPU", id=1)),
        ("/GPU:*", DeviceSpec(type="GPU")),
        ("/cpu:*", DeviceSpec(type="CPU")),
        ("/job:w/replica:1/task:2/device:GPU:3", DeviceSpec("w", 1, 2, "GPU", 3)),
        ("/gpu:3/task:2/replica:1/job:w", DeviceSpec("w", 1, 2, "GPU", 3)),
        ("/job:a/job:b", DeviceSpec(job="b")),
        ("/job:a/job:*", DeviceSpec()),
        ("/cpu:0/gpu:2", DeviceSpec(type="GPU", id=2)),
        ("/gpu:2/device:GPU", DeviceSpec(type="GPU")),
        ("/gpu:2/device:*:1", DeviceSpec(id=1)),
    ],
)
def test_what_the_cpp_parser_takes(text: str, spec: DeviceSpec) -> None:
    assert parse(text) == spec


@pytest.mark.parametrize(
    "text",
    [
        "cpu:1",
        "device:CPU:1",
        "//cpu:1",
        "/cpu:1/",
        "//",
        "/Cpu:1",
        "/cpu",
        "/gpu",
        "/cpu:",
        "/cpu:x",
        "/cpu:-1",
        "/device:",
        "/device:GPU:",
        "/device:GPU:x",
        "/device:0",
        "/job:",
        "/job:my-job",
        "/job:1ps",
        "/job:_ps",
        "/job:ps task:1",
        "/task:x",
        "/task:-1",
        "/task:",
        "/task:1.5",
        "/task:2147483648",
        "/task:99999999999999999999999",
        "/replica:",
        "/job:*x",
        "/nonsense:1",
        " /cpu:0",
        "/cpu:0 ",
        "/cpu:0\n",
        "/task:٣",
        "/job:größe",
    ],
)
def test_what_it_calls_malformed(text: str) -> None:
    with pytest.raises(ClusterError, match="Malformed device specification"):
        parse(text)


def test_the_message_says_where_reading_stopped() -> None:
    with pytest.raises(ClusterError, match="cannot read '-job/task:0'"):
        parse("/job:my-job/task:0")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("/", ""),
        ("/gpu:1/job:w", "/job:w/device:GPU:1"),
        ("/device:CPU", "/device:CPU:*"),
        ("/device:*:1", ""),  # an id without a type is not printed
        ("/task:01/replica:0/job:ps", "/job:ps/replica:0/task:1"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("", True),
        ("/job:w", True),
        ("/job:ww", False),
        ("/job:W", False),
        ("/task:1", True),
        ("/task:0", False),
        ("/gpu:*", True),
        ("/device:gpu:2", False),
        ("/gpu:1", False),
        ("/device:*:2", True),
        ("/job:w/replica:0/task:1/gpu:2", True),
    ],
)
def test_matching(spec: str, expected: bool) -> None:
    assert matches(parse(spec), parse("/job:w/replica:0/task:1/device:GPU:2")) is expected


@pytest.mark.parametrize(
    ("target", "other", "merged"),
    [
        ("", "/cpu:1", "/cpu:1"),
        ("/cpu:1", "", "/cpu:1"),
        ("/cpu:1", "/cpu:1", "/cpu:1"),
        ("/job:a", "/task:1/gpu:0", "/job:a/task:1/gpu:0"),
        ("/device:CPU", "/cpu:1", "/cpu:1"),
        ("/device:*:1", "/device:GPU", "/gpu:1"),
    ],
)
@pytest.mark.parametrize("soft", [False, True])
def test_merging_without_conflict(target: str, other: str, merged: str, soft: bool) -> None:
    assert merge(parse(target), parse(other), soft=soft) == parse(merged)


@pytest.mark.parametrize(
    ("target", "other", "merged"),
    [
        ("/cpu:1", "/cpu:2", "/device:CPU"),  # neither is satisfied
        ("/cpu:1", "/gpu:1", ""),
        ("/job:a/cpu:1", "/gpu:2", "/job:a"),
        ("/device:CPU", "/gpu:2", ""),  # the other's id is ignored
        ("/device:*:1", "/gpu:2", "/device:GPU"),
    ],
)
def test_conflicts_that_soft_merging_gives_up(target: str, other: str, merged: str) -> None:
    assert merge(parse(target), parse(other), soft=True) == parse(merged)
    with pytest.raises(InfeasibleError, match=r"incompatible (types|ids)"):
        merge(parse(target), parse(other), soft=False)


@pytest.mark.parametrize(
    ("target", "other", "field"),
    [("/job:a", "/job:b", "jobs"), ("/replica:0", "/replica:1", "replicas"), ("/task:0", "/task:1", "tasks")],
)
@pytest.mark.parametrize("soft", [False, True])
def test_nothing_relaxes_job_replica_and_task(target: str, other: str, field: str, soft: bool) -> None:
    with pytest.raises(InfeasibleError, match=f"incompatible {field}: '{target}' and '{other}'"):
        merge(parse(target), parse(other), soft=soft)


numbers = st.none() | st.integers(0, 2)
specs = st.builds(
    DeviceSpec,
    st.sampled_from([None, "ps", "worker"]),
    numbers,
    numbers,
    st.sampled_from([None, "CPU", "GPU"]),
    numbers,
)


@given(specs)
def test_parsing_undoes_printing(spec: DeviceSpec) -> None:
    printable = spec if spec.type else spec._replace(id=None)
    assert parse(str(spec)) == printable


@given(specs, specs)
def test_a_hard_merge_is_the_meet_of_both_or_an_error(a: DeviceSpec, b: DeviceSpec) -> None:
    if compatible(a, b):
        merged = merge(a, b, soft=False)
        assert merged == merge(b, a, soft=False) == merge(a, b, soft=True) == specialise(a, b)
        assert merge(merged, a, soft=False) == merged
    else:
        with pytest.raises(InfeasibleError):
            merge(a, b, soft=False)


@given(specs, specs, specs)
def test_a_device_matches_a_hard_merge_where_it_matches_both(a: DeviceSpec, b: DeviceSpec, c: DeviceSpec) -> None:
    device = DeviceSpec("ps", 0, 0, "CPU", 0)
    device = specialise(device, c)
    if compatible(a, b):
        assert matches(merge(a, b, soft=False), device) is (matches(a, device) and matches(b, device))


@given(specs)
def test_merging_with_anywhere_changes_nothing(spec: DeviceSpec) -> None:
    assert merge(spec, ANYWHERE, soft=True) == merge(ANYWHERE, spec, soft=True) == spec
