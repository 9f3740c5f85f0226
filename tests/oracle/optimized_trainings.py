"""Child process: the nodes that the sessions of a training run, on TensorFlow's own servers in this process.

A model is built as for one device and replicated by us. Each program's session optimizes the program's graph for its
step. Told, as a line of JSON per case: the GraphDef of the model, and of each program the nodes that ran, with ops and
devices.
"""

import base64
import json
import os
import sys
from typing import Any

os.environ["CUDA_VISIBLE_DEVICES"] = ""

from simulator.cluster.description import load_cluster
from simulator.costs.measurements.runs import without_mkl
from simulator.graph.graph_def import graph_def
from simulator.graph.importer import read_graph
from simulator.training.programs.replicated import replicate
from simulator.training.regimes import read_regime
from tests.oracle.averaging import WORKERS, started
from tests.oracle.optimized_sessions import RUN

CLUSTER = f"ps=1,worker={WORKERS}"
_EXCHANGED = ("_Recv", "_Send", "_HostRecv", "_HostSend", "_Arg", "_Retval")


def built(tf: Any, name: str) -> tuple[Any, list[str], dict[str, Any]]:
    """The graph of a model with its training, the fetches, and values to feed."""
    import numpy as np

    make = next(one for one in RUN if one.__name__ == name)
    with tf.Graph().as_default() as graph:
        fed, fetched = make(tf)
        tf.group(*[v.initializer for v in tf.global_variables()], name="init")
    values = {one.name: np.zeros([side or 2 for side in one.shape.as_list()], np.float32) for one in fed}
    return graph, [fetched[-1].name], values


def run(tf: Any, servers: Any, case: Any) -> Any:
    model, fetches, values = built(tf, case["model"])
    content = model.as_graph_def(add_shapes=True).SerializeToString()
    programs = replicate(
        read_graph(content), load_cluster(CLUSTER), how=case["how"], regime=read_regime(case["regime"]), fetch=fetches
    )
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.opt_level = -1  # what changes a piece after the cut
    options = tf.RunOptions(output_partition_graphs=True)
    sessions, told = [], []
    for at, program in enumerate(programs):
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(tf.GraphDef.FromString(graph_def(program.graph).SerializeToString()), name="")
        sessions.append(tf.Session(servers[1 + at % WORKERS].target, graph=graph, config=config))
    sessions[0].run("init")
    if len(programs) > WORKERS:  # updates come after all gradients
        sessions[-1].run("global_step/Assign")
        for worker in sessions[:WORKERS]:
            worker.run("sync_replicas/local_step/start")
        sessions[-1].run("sync_replicas/first_tokens")
    for program, session in zip(programs, sessions, strict=True):
        ran = tf.RunMetadata()
        known = {name: value for name, value in values.items() if program.role == "worker"}
        session.run(list(program.fetches), known, options=options, run_metadata=ran)
        nodes = [node for piece in ran.partition_graphs for node in piece.node if node.op not in _EXCHANGED]
        told.append(sorted([node.name, without_mkl(node.op), node.device] for node in nodes))
    return {"graph": base64.b64encode(content).decode(), "fetches": fetches, "ran": told}


def main() -> None:
    import tensorflow

    tf = tensorflow.compat.v1
    tf.disable_eager_execution()
    servers = started(tensorflow)
    for case in json.loads(sys.argv[1]):
        print(json.dumps(run(tf, servers, case)), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
