"""What the help says below the options, and the names of algorithms, some of which other packages offer."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from placement.algorithms import TABLE
from simulator.errors import SimvizError
from viz.arguments import Arguments

ALGORITHMS = tuple(TABLE)

_LINES = "\n".join(f"  {name:<28} {entry.help}" for name, entry in TABLE.items())
EPILOG = f"""\
clusters:
  4gpu, 2cpu, cpu=2,gpu=4      devices of one process
  ps=1,worker=2x2gpu           jobs, tasks and the GPUs of each task; a model's name for gpu: worker=2x8h100
  dgx-a100, ps-25gbe, ...      machines that simviz knows (docs/clusters.md lists them)
  FILE                         TOML, TF_CONFIG's JSON, or the output of nvidia-smi topo -m (FILE@MODEL)
  without it                   the jobs, tasks and GPUs that the graph names, else one host with four GPUs

algorithms:
{_LINES}
  NAME                         one that an installed package offers, if any does (docs/algorithms.md)

output:
  -o report.html               the report; also .svg .png .pdf .dot (the folded graph), .trace.json (Perfetto),
                               NAME.partitions (a folder of GraphDefs, one per device)
  -o placed.pbtxt              the graph with each node's device written into it; also .pb, and .meta of a MetaGraph
  --json FILE                  everything as one JSON object; with - it goes to standard output and nothing else does

examples:
  simviz graph.pbtxt
  simviz model.meta --cluster ps=2,worker=4x1v100 --batch 128
  simviz saved_model/ --signature serving_default --feed image=32,224,224,3 -o plan.html -o plan.svg
  simviz graph.pb --cluster ps=2,worker=64x8gpu --algorithm tensorflow --check
  simviz graph.pb --cluster 2gpu --algorithm tensorflow --check placement.log
  simviz graph.pb --cluster ps=1,worker=8 --contention fair --order tensorflow
  simviz seq2seq.meta --trips '*=20' --branch is_training=false

exit codes: 0 done; 1 a check failed or nothing feasible; 2 the input or the call is wrong; 130 interrupted
"""


class Options(Arguments):
    """The options; the help has the algorithms of other packages, too, which are looked up for it alone."""

    def read(self, arguments: Sequence[str] | None = None) -> argparse.Namespace:
        """The options. `--check` takes a log, or nothing: what stands behind it is the graph if there is no other."""
        asked = super().read(arguments)
        if asked.graph is None and isinstance(asked.check, str):
            asked.graph, asked.check = asked.check, True
        return asked

    def format_help(self) -> str:
        """The help."""
        from placement.plugins import described

        lines = described(ALGORITHMS)
        if lines:
            added = "\n".join(["algorithms of other packages:", *(f"  {line}" for line in lines)])
            self.epilog = EPILOG.replace("\noutput:", f"\n{added}\n\noutput:", 1)
        return super().format_help()


def algorithm(text: str) -> str:
    """Read the name of an algorithm. Raises argparse.ArgumentTypeError for one that there is not or can't be used."""
    if text not in ALGORITHMS:
        from placement.plugins import find  # only now: most runs need no other package

        try:
            find(text, ALGORITHMS)
        except SimvizError as error:
            said = str(error)
            raise argparse.ArgumentTypeError(said[0].lower() + said[1:]) from None
    return text
