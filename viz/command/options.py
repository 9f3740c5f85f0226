"""The command's options: how the command line is read, and the help that teaches it.

An option is always written in full: with abbreviations, a new option could change the meaning of an old script. An
error about an option is one sentence with the nearest name. This module imports nothing heavy, so --help is quick.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import NoReturn

from placement.algorithms import TABLE
from simulator.cluster.contention import CONTENTIONS
from simulator.errors import SimvizError
from simulator.execution.options import ENFORCED, ENGINES, ORDERS
from simulator.training.regimes import HELP as REGIMES
from simulator.wording import choices, meant, near
from viz.command.terminal import drop_output, tell

ALGORITHMS = tuple(TABLE)
# The names below belong to other modules, which --help must not load. The tests compare both.
PIPELINES = ("1f1b", "gpipe")  # the first is the default
FLAVOURS = ("auto", "local", "master")
RECV_SCHEDULING = ("whitepaper", "tensorflow")
REPLICATIONS = ("none", "in", "between", "both", "allreduce:ring", "allreduce:tree", "allreduce:hierarchical")
PS_STRATEGIES = ("round_robin", "bytes", "random")

_HELP = "simviz --help explains all options."

_TRAINING = """\
A training simulates many steps of many workers. A graph for one device is replicated over the cluster first. A graph
that assigns jobs, or several GPUs, is used unchanged. For example:
  simviz graph.pbtxt --cluster ps=2,worker=10x2gpu --training sync:aggregate=8,total=10 --disturb worker:3=slow:2.0
"""

_LINES = "\n".join(f"  {name:<28} {entry.help}" for name, entry in TABLE.items())
EPILOG = f"""\
clusters:
  4gpu, 2cpu, cpu=2,gpu=4      devices of one process
  ps=1,worker=2x2gpu           jobs, tasks and the GPUs of each task; a model may replace gpu: worker=2x8h100
  dgx-a100, ps-25gbe, ...      machines that simviz knows (docs/clusters.md lists them)
  FILE                         TOML, TF_CONFIG's JSON, or the output of nvidia-smi topo -m (FILE@MODEL)
  TF_CONFIG                    the environment variable of that name
  (none given)                 the jobs, tasks and GPUs that the graph names, else one host with four GPUs

algorithms:
{_LINES}
  NAME                         an algorithm of an installed package, if there is one (docs/algorithms.md)

output:
  -o report.html               the report; also .svg .png .pdf .dot (the folded graph), .trace.json (Perfetto),
                               .timeline.svg .timeline.pdf .memory.svg .memory.pdf .comparison.svg .comparison.pdf
                               (for papers; a comparison is that of --against),
                               .graphml (the placed graph for networkx, yEd, Gephi),
                               NAME.partitions (a folder of GraphDefs, one per device)
                               NAME.placement.json (that of an instance, as its file),
                               .run_metadata.pb .run_metadata.pbtxt (the step as a traced session reports it),
                               NAME.tables (a folder of CSV files: nodes, edges, transfers, devices, links, ..),
                               NAME.parquet (the same as Parquet files, by pyarrow),
                               NAME.model_explorer (a folder for Model Explorer: the graph and node data),
                               NAME.tensorboard (a folder for TensorBoard: devices, times and memory)
  -o placed.pbtxt              the graph with each node's device written into it; also .pb, and .meta of a MetaGraph
  --json FILE                  the whole result as one JSON object; - prints it, and prints nothing else

examples:
  simviz graph.pbtxt
  simviz model.meta --cluster ps=2,worker=4x1v100 --batch 128
  simviz saved_model/ --signature serving_default --feed image=32,224,224,3 -o plan.html -o plan.svg
  simviz graph.pb --cluster ps=2,worker=64x8gpu --algorithm tensorflow --check
  simviz graph.pb --cluster 2gpu --algorithm tensorflow --check placement.log
  simviz graph.pb --cluster ps=1,worker=8 --contention fair --order tensorflow
  simviz graph.pb --cluster 4gpu --compare single,whitepaper,heft,tensorflow
  simviz graph.pb --cluster 4gpu --against single
  simviz graph.pb --cluster 4gpu --pin layers/dense=GPU:1 --against unpinned
  simviz graph.pb --cluster ps=2,worker=4x1gpu --what-if
  simviz --calibrate host.toml
  simviz graph.pb --cluster ps=1,worker=2 --profile host.toml
  simviz seq2seq.meta --trips '*=20' --branch is_training=false
  simviz detector.pb --batch 8 --observe
  simviz bench graphs/ --cluster 4gpu --cluster ps=2,worker=2x2gpu     (simviz bench --help; a file bench is ./bench)

exit codes: 0 done; 1 a check failed, nothing feasible, or too little memory on a device; 2 the input or the call is
wrong; 130 interrupted (by another signal 128 and its number)
"""


class Options(argparse.ArgumentParser):
    """An ArgumentParser that raises SimvizError; argparse's own prints the usage and ends the process."""

    def read(self, arguments: Sequence[str] | None = None) -> argparse.Namespace:
        """Read the options; without `arguments`, those of the process. Raise SimvizError for the one that is wrong.

        `--check` and `--observe` take a file or nothing: a text behind one is the graph if there is no other graph.
        """
        self._check_dashes(sys.argv[1:] if arguments is None else arguments)
        asked, left = self.parse_known_args(arguments)
        if left:
            self.error(self._unknown(left))
        for name in ("check", "observe", "what_if"):
            if isinstance(getattr(asked, name, None), str) and asked.graph is None:
                asked.graph = getattr(asked, name)
                setattr(asked, name, True)
        return asked

    def _check_dashes(self, arguments: Sequence[str]) -> None:
        """Refuse "--" as a value that is written onto its option: argparse drops it, and gives a list."""
        for text in takewhile(lambda one: one != "--", arguments):
            if text.startswith("-") and text.endswith("=--" if text.startswith("--") else "--"):
                self.error(f"{text.removesuffix('--').removesuffix('=')} has no value")

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong as a sentence; argparse's own begin with "argument"."""
        said = message.removeprefix("argument ").rstrip(".")
        raise SimvizError(f"{said}{'' if said.endswith('?') else '.'} {_HELP}")

    def print_help(self, file: object = None) -> None:
        """Print the help; a reader may leave before its end. Raise SimvizError where it can't be written."""
        try:
            tell(self.format_help().rstrip("\n"))
        except BrokenPipeError:
            drop_output()

    def format_help(self) -> str:
        """Return the help. It lists the algorithms of other packages, too, which are looked up for it alone."""
        from placement.plugins import described

        lines = described(ALGORITHMS)
        if lines:
            added = "\n".join(["algorithms of other packages:", *(f"  {line}" for line in lines)])
            self.epilog = EPILOG.replace("\noutput:", f"\n{added}\n\noutput:", 1)
        return super().format_help()

    def _unknown(self, left: Sequence[str]) -> str:
        unknown = next((text for text in left if text.startswith("-") and len(text) > 1), None)
        if unknown is None:
            return f"{left[0]!r} is a second graph: give one, and each option's value right behind it"
        name = unknown.partition("=")[0]
        known = [option for option in self._option_string_actions if option.startswith("--")]
        longer = [option for option in known if option.startswith(name)]
        return f"There is no option {name}.{meant(longer) if longer else near(name, known)}"

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse what is not among an option's choices; argparse has no public place to say it in other words."""
        if action.choices is None or value in action.choices:
            return
        names = [str(choice) for choice in action.choices]
        said = f"there is no {value!r}; choose one of {choices(str(value), names)}"
        raise argparse.ArgumentError(action, said)


def whole_number(text: str) -> int:
    """Read an option's number. Raise argparse.ArgumentTypeError, of which argparse makes an error of the option."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def algorithm(text: str) -> str:
    """Read the name of an algorithm. Raise argparse.ArgumentTypeError if it is unknown or can't be used."""
    if text not in ALGORITHMS:
        from placement.plugins import find  # most runs need no other package

        try:
            find(text, ALGORITHMS)
        except SimvizError as error:
            said = str(error)
            raise argparse.ArgumentTypeError(said[0].lower() + said[1:]) from None
    return text


def algorithms(text: str) -> tuple[str, ...]:
    """Read names of algorithms with commas between. Raise argparse.ArgumentTypeError for one that is unknown."""
    names = tuple(dict.fromkeys(algorithm(name.strip()) for name in text.split(",") if name.strip()))
    if not names:
        raise argparse.ArgumentTypeError("name at least one algorithm, such as single,heft")
    return names


def parser() -> Options:
    """The options, with the help that teaches them."""
    made = Options(
        prog="simviz",
        description="See where a TensorFlow graph runs: place it on a cluster, cut it, simulate a step, draw it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument(
        "graph",
        nargs="?",
        metavar="GRAPH",
        help="GraphDef, MetaGraph or SavedModel, binary or text, gzipped or not, or a file of TensorBoard's events; - "
        "for standard input",
    )
    _add_step(made.add_argument_group("the step"))
    _add_placement(made.add_argument_group("where it runs"))
    simulated = made.add_argument_group("how the step is simulated")
    add_costs(simulated)
    add_order(simulated)
    add_control_flow(made.add_argument_group("loops and branches"))
    _add_training(made.add_argument_group("training", _TRAINING))
    compared = made.add_argument_group("several runs side by side")
    _add_comparison(compared)
    _add_what_if(compared)
    _add_output(made.add_argument_group("what is written"))
    _add_machine(made.add_argument_group("this machine"))
    return made


def _add_step(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--signature", metavar="S", help="run this signature of a SavedModel, in a training the one that trains")
    add("--fetch", action="append", metavar="NAME", help="fetch this tensor (node:port) or run this node; repeatable")
    add(
        "--feed",
        action="append",
        default=[],
        metavar="NAME=SHAPE",
        help="feed a tensor of this shape: image=32,224,224,3; repeatable",
    )
    add_sizes(group)
    _add_observation(group)


def add_sizes(group: argparse._ArgumentGroup) -> None:
    """Options for the number of examples, and for calls."""
    add = group.add_argument
    add(
        "--batch",
        type=whole_number,
        metavar="N",
        help="number of examples: the first dimension of placeholders, dequeues and iterators (default: what the file "
        "fixes, else what its datasets make, else 1)",
    )
    add(
        "--grappler",
        action="store_true",
        help="take the graph that this machine's TensorFlow makes of it before a step: Grappler joins kernels, folds "
        "constants and changes layouts, for devices such as those of the cluster (no GPU is needed)",
    )
    add("--keep-calls", action="store_true", help="keep each function call as a single node")
    add(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=N",
        help="take more or less than simviz takes by itself: nodes=5000000. A refusal names its limit, and "
        "docs/limits.md lists all; repeatable",
    )


def _add_observation(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--observe",
        nargs="?",
        const=True,
        default=False,
        metavar="FILE",
        help="run the step once with the TensorFlow of this machine, on made-up inputs. Shapes, loops, branches and "
        "times on CPUs are then as observed, and kept in FILE (default: GRAPH's name with .observed). Its ops run: "
        "observe only graphs that you trust (docs/observing.md)",
    )
    add("--observation", metavar="FILE", help="use the step that --observe kept in FILE; nothing is run")
    add("--observe-time", metavar="TIME", help="the time that --observe may take, such as 10min (default: 2min)")
    add(
        "--observe-memory",
        metavar="BYTES",
        help="the memory that the observed step may take, such as 8GiB (default: three quarters of what is free)",
    )


def _add_placement(group: argparse._ArgumentGroup) -> None:
    """Options for the machines, the placement, and the TensorFlow session that is predicted."""
    add = group.add_argument
    add("--cluster", metavar="C", help="the machines (see below)")
    add(
        "--algorithm",
        type=algorithm,
        metavar="A",
        help="the placement algorithm (see below; default: search)",
    )
    add(
        "--budget",
        metavar="B",
        help="what search or exact may spend: a time such as 1s or 5min, or the number of placements that the search "
        "judges at most, with which it repeats (default: as many as take about a second)",
    )
    add(
        "--refine",
        action="store_true",
        help="run the plan on processes of this machine's TensorFlow, a task each, and place again by the times that "
        "its ops took, while another plan promises more than the noise. The fastest plan is shown, with measured "
        "costs. Its ops run: refine only graphs that you trust (docs/calibrating.md)",
    )
    add(
        "--pin",
        action="append",
        default=[],
        metavar="SCOPE=DEVICE",
        help="run a node, or all nodes of a scope, on this device of --cluster, as if the program said so: "
        "tower_1=GPU:0, layers/dense=worker:0/GPU:1. The algorithm places the others. Repeatable; of nested scopes "
        "the inner one counts. --against unpinned shows what it changes",
    )
    _add_pipeline(group)
    add_session(group)


def _add_pipeline(group: argparse._ArgumentGroup) -> None:
    """Options for a step in microbatches."""
    add = group.add_argument
    add(
        "--microbatches",
        metavar="N|auto",
        help="split the batch of a training step into N microbatches, which pass through stages on all GPUs (or the "
        "CPU of each task), with one update at the end. auto: 2, 4 or 8 where that is faster than the plain step "
        "(docs/pipelines.md)",
    )
    add(
        "--pipeline",
        choices=PIPELINES,
        help="the order of microbatches on a stage. 1f1b (default): one forward and one backward in turn. gpipe: all "
        "forward, then all backward",
    )
    add(
        "--stages",
        type=whole_number,
        metavar="N",
        help="the number of stages, each on a device (default: all that train; auto tries half of them, too)",
    )


def add_session(group: argparse._ArgumentGroup) -> None:
    """Options for the TensorFlow session that is predicted."""
    add = group.add_argument
    add("--ignore-devices", action="store_true", help="drop the graph's device strings before it is placed")
    softness = group.add_mutually_exclusive_group()
    softness.add_argument(
        "--soft", dest="soft", action="store_true", default=True, help="soft placement, as in TensorFlow 2 (default)"
    )
    softness.add_argument(
        "--hard", dest="soft", action="store_false", help="hard placement: the requested device or an error"
    )
    add(
        "--master",
        metavar="JOB:TASK",
        help="the task that the session connects to. TensorFlow prefers its devices to equal ones. Default: the first "
        "task of a job chief, master or worker, else the first task. standin_client:0 adds a task for the session",
    )
    add(
        "--flavour",
        choices=FLAVOURS,
        default="auto",
        help="who cuts the graph. local: one session, by device; no TensorFlow does so over several tasks. master: a "
        "master by task, then each worker by device. auto (default): local for one task, else master",
    )


def add_costs(group: argparse._ArgumentGroup) -> None:
    """Options for the times of ops."""
    add = group.add_argument
    add(
        "--costs",
        action="append",
        default=[],
        metavar="FILE",
        help="measured times: RunMetadata, StepStats, CostGraphDef, a Chrome trace or XPlane of TensorFlow, or CSV "
        "with node,kind,ns. Repeatable: the median of all times of a node counts",
    )
    add(
        "--profile",
        metavar="FILE",
        help="a profile of a machine, made by --calibrate: CPUs of the cluster are priced as that machine was "
        "measured, and so is gRPC. That takes the place of a cluster's protocol=grpc, but not of --protocol grpc, nor "
        "of another protocol. Summary and JSON give an interval",
    )


def add_order(group: argparse._ArgumentGroup) -> None:
    """Options for the event loop."""
    add = group.add_argument
    add(
        "--order",
        choices=(*ORDERS, ENFORCED),
        default="auto",
        help="the order in which a device takes its ready ops. fifo: by the time they became ready. priority: by the "
        "placement's priorities. tensorflow: as its executor, nearly depth-first. auto (default): priority where the "
        "placement gives one, else fifo; tensorflow for --refine. enforced: as TensorFlow's executor, held to the "
        "order of auto by control edges, which -o placed.pbtxt has, too (docs/options.md)",
    )
    add(
        "--contention",
        choices=CONTENTIONS,
        default="serial",
        help="the sharing of links that the cluster's file leaves open. serial (default): one transfer after the "
        "other. fair: all at once in max-min fair shares. none: each transfer as if alone",
    )
    add(
        "--protocol",
        metavar="NAME",
        help="the protocol between tasks: grpc, rdma, nccl, plain (the links alone), or one that the cluster's file "
        "describes. It goes before the cluster's own and before --profile (default: the cluster's, else grpc, as "
        "--profile measured it)",
    )
    add(
        "--recv-scheduling",
        choices=RECV_SCHEDULING,
        help="delay Recvs. whitepaper: until the copy is needed (2015, section 5.2), where neither time nor memory "
        "gets worse. tensorflow: as a master's option enable_recv_scheduling does, by the graph alone (default: no "
        "Recv is delayed)",
    )
    add(
        "--engine",
        choices=ENGINES,
        default="auto",
        help="the event loop: python, or compiled by LLVM. Both agree to the nanosecond. auto (default): compiled "
        "for steps that are large enough to pay for loading it",
    )


def add_control_flow(group: argparse._ArgumentGroup) -> None:
    """Options for loops, branches and chance."""
    add = group.add_argument
    add(
        "--trips",
        action="append",
        default=[],
        metavar="FRAME=N",
        help="the number of iterations of a loop; '*=10' for every loop; repeatable. Default: the graph's constants "
        "decide, else one iteration, or as many as a fetch needs. The notes name the loops",
    )
    add(
        "--branch",
        action="append",
        default=[],
        metavar="NAME=WAY",
        help="the decision of a predicate, by its node or tensor: true, false, a probability (0.3), or the branch's "
        "number for a Case; repeatable. Default: constants and counters decide, else true, or the branch without "
        "which a fetch would be dead",
    )
    add(
        "--seed",
        type=whole_number,
        default=0,
        metavar="N",
        help="the seed of all chance: branches with a probability, noise, random ps tasks, a search for a placement, "
        "and under --order tensorflow the turns in which a GPU receives (default: 0)",
    )


def _add_machine(group: argparse._ArgumentGroup) -> None:
    """Options that get this machine ready, and end."""
    add = group.add_argument
    add(
        "--calibrate",
        nargs="?",
        const="host.toml",
        metavar="FILE",
        help="measure this machine with its TensorFlow in some two minutes, write a profile (default: host.toml), "
        "and end. Nothing else should run meanwhile",
    )
    add(
        "--warm-up",
        action="store_true",
        help="compile the event loops of a step and of a training and what a search needs now, and end",
    )


def _add_training(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--training",
        metavar="REGIME",
        help=REGIMES,
    )
    add(
        "--replicate",
        metavar="HOW",
        choices=REPLICATIONS,
        help="between: a client and a graph per worker, variables on ps tasks. in: one client, a copy of the model "
        "per GPU. both: copies within each worker. allreduce:ring, :tree or :hierarchical: no ps tasks. none: the "
        "graph unchanged. Default: none if the graph assigns jobs; else between with ps tasks; else none if it names "
        "several GPUs or CPUs, or holds towers; else in. Without --training one step of the first client is shown",
    )
    add(
        "--fuse",
        metavar="BYTES",
        help="fuse the gradients of an all-reduce into buckets of this size, such as 64MiB (default: no fusing)",
    )
    add(
        "--ps-strategy",
        choices=PS_STRATEGIES,
        help="the ps task of each variable: in turn, the one with the fewest bytes so far, or random by --seed "
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
        help="the tasks that a session sees and waits for, as in ConfigProto.device_filters: "
        "'worker=/job:ps,/job:worker/task:{task}'. {job} and {task} are the session's own. Without JOB: for the "
        "sessions of all other jobs. Repeatable (default: all tasks)",
    )
    _add_rates(group)
    add(
        "--workers",
        metavar="N,N,..",
        help="compare these numbers of workers, 1,2,4,8: a table and a plot. The job worker of a short notation is "
        "counted anew; of any other cluster the first workers are taken",
    )
    _add_length(group)


def _add_rates(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]RATE",
        help="the speed of the input: 1200/s examples per second, or none: it never runs dry. NAME is a queue, an "
        "iterator or 'feed'; without it the rate is for all. Repeatable (default: estimated from what fills the "
        "queues and iterators)",
    )
    add(
        "--gap",
        metavar="TIME",
        help="the time between two steps of a client, such as 2ms: Python, the session, and the messages that begin "
        "and end a step (default: 60us in a session of one task, else 0.3ms and 80us for each other task)",
    )


def _add_length(group: argparse._ArgumentGroup) -> None:
    length = group.add_mutually_exclusive_group()
    length.add_argument(
        "--steps", type=whole_number, metavar="N", help="steps of each worker, or common updates (default: 50)"
    )
    length.add_argument(
        "--until-ci",
        metavar="SHARE",
        help="run until the rate is this precise: 2%% is half of a 95 %% confidence interval of steps per second",
    )


def _add_comparison(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--against",
        metavar="X",
        help="explain what differs from another run, by its critical path: X is an algorithm, a cluster, a file of "
        "measured times, an observed step, an earlier result of --json, unpinned for the run without --pin, plain for "
        "the step without --microbatches, or of a training a regime; the report shows both",
    )
    add(
        "--compare",
        type=algorithms,
        metavar="A,A,..",
        help="print a table with a row for each of these algorithms, and draw nothing; with --json as JSON",
    )


def _add_what_if(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--what-if",
        nargs="?",
        const=True,
        default=False,
        metavar="kept|again",
        help="simulate the step again with one change at a time, and rank what changes it most: bandwidth and latency "
        "of links, speeds of devices, the batch, one device more or fewer, protocol, contention. kept (default): on "
        "the same placement, where the devices stay; again: placed again by the same algorithm",
    )


def _add_output(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "-o",
        "--output",
        action="append",
        default=[],
        metavar="FILE",
        help="write a file; its suffix is the format; repeatable (default: GRAPH's name with .html, but nothing with "
        "--json)",
    )
    add(
        "--picture",
        metavar="KEY=VALUE,..",
        help="the look of pictures: width=180mm (default: 85mm, a column; of the graph its own), rows=24 of a timeline "
        "(16), boxes=60 (30) and depth=2 of the graph (any), legend=no, letters=shapes of an SVG",
    )
    add("--json", metavar="FILE", help="write the result for machines; - for standard output")
    add(
        "--check",
        nargs="?",
        const=True,
        default=False,
        metavar="LOG",
        help="ask the real TensorFlow whether it does the same. With LOG: compare with a log of log_device_placement, "
        "without TensorFlow. A lone --check GRAPH names the graph",
    )
    add("--verbose", action="store_true", help="print every fact in the summary, not only the ten most important")
    add("--quiet", action="store_true", help="print no summary and no progress")
    add("--version", action="store_true", help="print the version and end")
