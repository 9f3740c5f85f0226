"""The options of the command line, with the help that teaches them; nothing heavy is imported."""

from __future__ import annotations

import argparse

from viz.arguments import Arguments, whole_number
from viz.helping import ALGORITHMS as ALGORITHMS
from viz.helping import EPILOG, Options, algorithm

FLAVOURS = ("auto", "local", "master")  # of simulator.partitioning, written out: --help must not load it
RECV_SCHEDULING = ("whitepaper", "tensorflow")
ORDERS = ("auto", "fifo", "priority", "tensorflow")
CONTENTIONS = ("serial", "fair", "none")
ENGINES = ("auto", "python", "compiled")
REPLICATIONS = ("none", "in", "between", "both", "allreduce:ring", "allreduce:tree", "allreduce:hierarchical")
PS_STRATEGIES = ("round_robin", "bytes", "random")

_TRAINING = """\
Many steps of many workers instead of one step. A graph of one device is replicated over the cluster first. One
that names jobs, or several GPUs, is taken as it stands:
  simviz graph.pbtxt --cluster ps=2,worker=10x2gpu --training sync:aggregate=8,total=10 --disturb worker:3=slow:2.0
"""


def parser() -> Arguments:
    """The options, with the help that teaches them."""
    made = Options(
        prog="simviz",
        description="See where a TensorFlow graph runs: place it on a cluster, cut it, simulate a step, draw it.",
        epilog=EPILOG,
    )
    made.add_argument(
        "graph",
        nargs="?",
        metavar="GRAPH",
        help="GraphDef, MetaGraph or SavedModel, binary or text, gzipped or not; - for standard input",
    )
    _add_step(made.add_argument_group("the step"))
    _add_placement(made.add_argument_group("where it runs"))
    _add_simulation(made.add_argument_group("how the step is simulated"))
    _add_control_flow(made.add_argument_group("loops and branches"))
    _add_training(made.add_argument_group("training", _TRAINING))
    _add_output(made.add_argument_group("what is written"))
    return made


def _add_step(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--signature", metavar="S", help="run this signature of a SavedModel")
    add("--fetch", action="append", metavar="NAME", help="fetch this tensor (node:port) or run this node; repeatable")
    add(
        "--feed",
        action="append",
        default=[],
        metavar="NAME=SHAPE",
        help="feed a tensor of this shape: image=32,224,224,3; repeatable",
    )
    add(
        "--batch",
        type=whole_number,
        default=1,
        metavar="N",
        help="fills the unknown first dimension of placeholders (default: 1)",
    )
    add("--keep-calls", action="store_true", help="leave function calls as single nodes")


def _add_placement(group: argparse._ArgumentGroup) -> None:
    """The machines, the placement, and how the TensorFlow session is set up that is predicted."""
    add = group.add_argument
    add("--ignore-devices", action="store_true", help="drop the graph's device strings before it is placed")
    add("--cluster", metavar="C", help="the machines (see below)")
    add(
        "--algorithm",
        type=algorithm,
        metavar="A",
        default="whitepaper",
        help="how devices are chosen (see below; default: whitepaper)",
    )
    softness = group.add_mutually_exclusive_group()
    softness.add_argument(
        "--soft", dest="soft", action="store_true", default=True, help="soft placement, as TensorFlow 2 (default)"
    )
    softness.add_argument(
        "--hard", dest="soft", action="store_false", help="hard placement: asked-for devices or nothing"
    )
    add(
        "--master",
        metavar="JOB:TASK",
        help="the task that the session connects to, whose devices TensorFlow prefers to equal ones "
        "(default: the first of a job chief, master or worker, else the first); standin_client:0: one that is added",
    )
    add(
        "--flavour",
        choices=FLAVOURS,
        default="auto",
        help="who cuts: auto, whoever does in such a cluster; local, one session by device, as none over several tasks "
        "does; master, a master by task, then its workers by device (default: auto, which is local where there is one "
        "task, else master)",
    )


def _add_simulation(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--costs",
        action="append",
        default=[],
        metavar="FILE",
        help="measured times: RunMetadata or StepStats, or CSV with node,kind,ns; repeatable, as TensorFlow writes a "
        "file per step: of all times of a node the median counts",
    )
    add(
        "--order",
        choices=ORDERS,
        default="auto",
        help="how a device chooses among ready ops: fifo, the first that was ready; priority, as the placement says; "
        "tensorflow, as its executor does, nearly depth-first (default: auto, which is priority where there is one, "
        "else fifo)",
    )
    add(
        "--contention",
        choices=CONTENTIONS,
        default="serial",
        help="how transfers use a link that the cluster's file leaves open: serial, one after the other; fair, all at "
        "once in max-min fair shares; none, each as if it were alone (default: serial)",
    )
    add(
        "--protocol",
        metavar="NAME",
        help="how tasks talk: grpc, rdma, nccl, plain (the wires alone), or the one that the cluster's file describes "
        "(default: the cluster's, else grpc)",
    )
    add(
        "--recv-scheduling",
        choices=RECV_SCHEDULING,
        help="delay Recvs: whitepaper, each until its copy is needed, by a simulation's latest times (2015, section "
        "5.2), where that costs no time and no memory; tensorflow, as a master's option enable_recv_scheduling does, "
        "by the place of nodes in the graph alone, and only a master has it (default: none is delayed)",
    )
    add(
        "--engine",
        choices=ENGINES,
        default="auto",
        help="which event loop runs: python, or compiled by numba; they agree to the nanosecond (default: auto, "
        "compiled where the step is large enough to pay for loading it)",
    )
    add(
        "--warm-up",
        action="store_true",
        help="compile the event loops of a step and of a training ahead of the first large one, and end",
    )


def _add_control_flow(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--trips",
        action="append",
        default=[],
        metavar="FRAME=N",
        help="how often the body of this loop runs; '*=10' for every loop; repeatable (default: as the graph's "
        "constants say, else once, or as often as what is fetched needs; the summary names the loops)",
    )
    add(
        "--branch",
        action="append",
        default=[],
        metavar="NAME=WAY",
        help="which way a branch goes, by the node or tensor of its predicate: true, false, how likely it holds (0.3), "
        "for a Case the branch's number; repeatable (default: as constants and counters say, else true, or the way "
        "without which a fetch would be dead)",
    )
    add(
        "--seed",
        type=whole_number,
        default=0,
        metavar="N",
        help="where chance enters: likely branches, noise, ps tasks by chance (default: 0)",
    )


def _add_training(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--training",
        metavar="REGIME",
        help="async, each gradient is applied as it comes; sync[:aggregate=A,total=T,tokens=K], an update averages A "
        "gradients of T workers, the T - A slowest are backup, and K tokens let workers go on before the first update "
        "(default: A = T = all workers, K = A); ssp:bound=B, as async, but nobody is more than B steps "
        "ahead; none, one step as without it (default)",
    )
    add(
        "--replicate",
        metavar="HOW",
        choices=REPLICATIONS,
        help="between: a client and graph per worker, variables on ps tasks; in: one client, a copy of the model per "
        "GPU; both: copies within each worker; allreduce:ring, :tree or :hierarchical in place of ps tasks; none: the "
        "graph as it stands (default: none where it names jobs; else between where there are ps tasks; else none "
        "where it names several GPUs or holds towers, else in)",
    )
    add(
        "--fuse",
        metavar="BYTES",
        help="fuse the gradients of an all-reduce into buckets of so many bytes, such as 64MiB (default: each alone)",
    )
    add(
        "--ps-strategy",
        choices=PS_STRATEGIES,
        help="which ps task keeps a variable: in turn, the one with the fewest bytes so far, or by chance with --seed "
        "(default: round_robin)",
    )
    add(
        "--disturb",
        action="append",
        default=[],
        metavar="WHO=WHAT",
        help='worker:3=slow:2.0, worker:*=noise:lognormal:0.3, "ps:0=pause:every=2 s,for=100 ms", '
        '"worker:1=late:5 s", "worker:2=crash:at=2 s,for=500 ms", "link:ps:0->worker:1=degrade:4"; repeatable '
        "(docs/disturbances.md has all)",
    )
    add(
        "--device-filters",
        action="append",
        default=[],
        metavar="[JOB=]FILTERS",
        help="which tasks a session sees and waits for, as ConfigProto.device_filters: "
        "'worker=/job:ps,/job:worker/task:{task}', where {job} and {task} are the session's own; without JOB for the "
        "sessions of all other jobs; repeatable (default: all tasks)",
    )
    _add_rates(group)
    add("--workers", metavar="N,N,..", help="compare these numbers of workers, 1,2,4,8: a table and a plot")
    _add_length(group)


def _add_rates(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]RATE",
        help="how fast the steps' input is made: 1200/s examples per second, or none: it never runs dry; with the NAME "
        "of a queue, an iterator or 'feed' for that alone; repeatable (default: as fast as what fills queues and the "
        "datasets of iterators are priced)",
    )
    add(
        "--gap",
        metavar="TIME",
        help="what a client and its master take between two steps, such as 2ms: Python, the session, the messages that "
        "begin and end a step (default: 60us in a session of one task, else 0.3ms and 80us for each other task)",
    )


def _add_length(group: argparse._ArgumentGroup) -> None:
    length = group.add_mutually_exclusive_group()
    length.add_argument(
        "--steps", type=whole_number, metavar="N", help="steps of each worker, or common updates (default: 50)"
    )
    length.add_argument(
        "--until-ci",
        metavar="SHARE",
        help="until steps per second are known so well: 2%% is half of a 95 %% confidence interval",
    )


def _add_output(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "-o",
        "--output",
        action="append",
        default=[],
        metavar="FILE",
        help="write a picture; the suffix is the format; repeatable",
    )
    add("--json", metavar="FILE", help="write the result for machines; - for standard output")
    add(
        "--check",
        nargs="?",
        const=True,
        default=False,
        metavar="LOG",
        help="ask the real TensorFlow whether it does the same; with LOG, compare what it wrote with "
        "log_device_placement, without TensorFlow (a lone --check GRAPH names the graph)",
    )
    add("--quiet", action="store_true", help="no summary and no progress")
    add("--version", action="store_true", help="print the version and end")
