"""Calls of the fuzzer that a person could type: options that fit together for the most part, and some that do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.fuzzing.texts import NAMES, Chance, changed_text, number, quantity

_Values = Mapping[str, Sequence[str]]

# What every call can have. A flag has no values. Files are those of `cases.files`.
EVERY: _Values = {
    "--signature": ("serving_default", "x"),
    "--fetch": ("train", "y", "y:0", "x:0", "^y", "while/Exit"),
    "--feed": ("x=8,8", "images=8,784", "x:0=3", "y=2x2", "x=0"),
    "--batch": ("1", "64"),
    "--cluster": ("2gpu", "cpu=2", "ps=1,worker=2", "ps=2,worker=3x1gpu", "worker=2x2gpu", "dgx-a100", "chief=1",
                  "TF_CONFIG", "cluster.toml"),
    "--algorithm": ("whitepaper", "heft", "single", "tensorflow", "requested", "cpop", "peft", "etf", "m_topo", "m_etf",
                    "m_sct", "search", "exact"),
    "--ignore-devices": (),
    "--keep-calls": (),
    "--limit": ("nodes=100", "nodes=16777216", "tensors=30", "calls=400", "count=1099511627776", "devices=1048576",
                "step-devices=2", "whole-cluster=1", "part=2", "unrolled=40", "recorded=1", "patience=1"),
    "--soft": (),
    "--hard": (),
    "--verbose": (),
    "--quiet": (),
    "--master": ("ps:0", "worker:0", "worker:1", "standin_client:0", "localhost:0"),
    "--flavour": ("auto", "local", "master"),
    "--costs": ("costs.csv", "graph", "trace.json"),
    "--profile": ("host.toml", "graph"),
    "--observation": ("seen.observed", "host.toml"),
    "--order": ("auto", "fifo", "priority", "tensorflow"),
    "--contention": ("serial", "fair", "none"),
    "--protocol": ("grpc", "rdma", "nccl", "plain"),
    "--recv-scheduling": ("whitepaper", "tensorflow"),
    "--engine": ("python", "compiled", "auto"),
    "--trips": ("*=3", "while=2", "*=0"),
    "--branch": ("p=true", "p=0.3", "while/LoopCond=true"),
    "--seed": ("0", "7", "18446744073709551615"),
    "--output": ("a.html", "a.svg", "a.dot", "a.graphml", "a.trace.json", "a.pb", "a.pbtxt", "a.meta", "a.timeline.svg",
                 "a.memory.svg", "a.comparison.svg", "a.placement.json", "a.partitions", "a.observed", "a", "graph",
                 "a.run_metadata.pb", "a.tensorboard", "a.tables", "a.parquet", "a.model_explorer",
                 "missing/a.html"),
    "--picture": ("width=180mm", "rows=3,legend=no", "boxes=5,depth=1", "width=3.4in"),
    "--json": ("a.json", "-", "graph"),
    "--check": ("log", "missing"),
}  # fmt: skip
STEP: _Values = {
    "--budget": ("1", "20", "30ms"),
    "--pin": ("conv1=GPU:0", "y=CPU:0", "train=worker:0/CPU:0", "while=CPU:0", "nowhere=CPU:0"),
    "--against": ("single", "heft", "2gpu", "ps=2,worker=1", "costs.csv", "unpinned", "result.json", "seen.observed"),
    "--compare": ("single,heft", "tensorflow", "whitepaper,etf,m_topo"),
    "--what-if": ("kept", "again"),
    "--microbatches": ("2", "4", "auto", "1"),
    "--pipeline": ("1f1b", "gpipe"),
    "--stages": ("2", "1"),
    "--refine": (),
    "--grappler": (),
    "--observe": ("step.observed",),
    "--observe-time": ("10s",),
    "--observe-memory": ("1GiB",),
}
TRAINING: _Values = {
    "--training": ("async", "sync", "sync:aggregate=1,total=2", "ssp:bound=2", "none", "sync:tokens=3"),
    "--replicate": ("between", "in", "both", "allreduce:ring", "allreduce:tree", "allreduce:hierarchical", "none"),
    "--fuse": ("64MiB", "1B"),
    "--ps-strategy": ("round_robin", "bytes", "random"),
    "--disturb": (
        "worker:0=slow:2.0", "worker:*=noise:lognormal:0.3", "ps:0=pause:every=2 ms,for=100 us", "worker:1=late:5 ms",
        "worker:0=crash:at=2 ms,for=5 ms", "link:ps:0->worker:0=degrade:4", "*=noise:exponential:0.2",
        "link:worker:0->ps:0=traffic:1 GB/s", "worker:0=noise:empirical:costs.csv", "*=slow:0.001",
    ),
    "--device-filters": ("worker=/job:ps,/job:worker/task:{task}", "/job:ps", "/job:{job}"),
    "--input": ("1200/s", "none", "feed=3/s", "0.001/s"),
    "--gap": ("2ms", "0ns"),
    "--workers": ("1,2", "1,2,4", "3"),
    "--steps": ("1", "5", "40"),
    "--until-ci": ("5%", "0.2"),
    "--against": ("sync", "async", "ssp:bound=1", "result.json"),
}  # fmt: skip
BENCH: _Values = {
    "--cluster": EVERY["--cluster"],
    "--algorithms": ("single,heft", "tensorflow", "search"),
    "--budget": ("10", "20ms"),
    "--jobs": ("1", "2"),
    "-o": ("a.csv", "a.svg", "a.parquet", "a.html"),
} | {
    name: EVERY[name]
    for name in ("--batch", "--soft", "--hard", "--master", "--costs", "--order", "--engine", "--seed")
}
# What a name may also lead to: devices that never end or take nothing, links in a circle, to nowhere, to here.
ELSEWHERE = ("/dev/zero", "/dev/null", "/dev/full", "circle", "there", "gone", "here", "here/graph", "circle/a.html",
             "/proc/self/mem", "/dev/stdin/x", "\udcff")  # fmt: skip
GRAPHS = ("graph", "train", "train", "loop", "calls", "instance.json")
_SLOW = ("--refine", "--observe")  # real TensorFlow runs for them, in processes of its own
_LONG = ("--steps", "--until-ci", "--trips", "--workers", "--jobs")  # a large number is a wish that takes its time


def option_list(random: Chance) -> list[str]:
    """A call with a graph and up to six options, of which a few are wrong."""
    way = random.random()
    if way < 0.05:
        return ["bench", random.choice(("graph", "train", "missing", ".")), *_typed(BENCH, random, random.randrange(5))]
    typed = [random.choice(("missing", *ELSEWHERE)) if random.bad else random.choice(GRAPHS)]
    known = dict(EVERY)
    if way < 0.45:
        known |= TRAINING
        typed += ["--training", random.choice(TRAINING["--training"]), "--steps", random.choice(("2", "20"))]
        typed += ["--cluster", random.choice(("ps=1,worker=2", "ps=2,worker=3x1gpu", "worker=2x2gpu", "4gpu"))]
    elif way < 0.95:
        known |= STEP
        typed += ["--budget", "30"] if random.random() < 0.9 else []
    else:
        known |= {**STEP, **TRAINING}
    if random.random() < 0.8:  # what decides nearly every call by itself
        known = {
            name: values for name, values in known.items() if name not in ("--signature", "--check", "--observation")
        }
    typed += _typed(known, random, random.randrange(6))
    if random.bad:
        typed.append(random.choice(("--help", "--version", "--nonsense", "-x", "--", "second", "--warm-up")))
    return typed


def _typed(known: _Values, random: Chance, count: int) -> list[str]:
    """So many options with their values; sometimes a value is changed, absent, or another's."""
    typed = []
    for _ in range(count):
        option = random.choice(sorted(known))
        if option in _SLOW and random.random() < 0.95:
            continue
        values = known[option]
        typed.append(option)
        if not values or (option in ("--what-if", "--observe", "--check") and random.random() < 0.5):
            continue
        value = random.choice(values)
        if random.bad and option not in _LONG:
            value = changed_text(value, random)[:20000]
            if random.random() < 0.3:
                value = random.choice(
                    (quantity(random), random.choice(NAMES), number(random), random.choice(ELSEWHERE))
                )
        if not random.bad:
            typed.append(value.replace("\n", " ").replace("\0", ""))
    return typed
