"""A traced step of the real TensorFlow in each form that it writes; run in a process of its own: FOLDER.

The graph is a product, Relu and sum. Each file's suffix misleads, as the content alone decides the form.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

SIZE = 64
STEPS = 3  # that the profiler sees
FORMS = {  # file -> the form that is to be recognised
    "run_metadata": "StepStats",
    "step_stats": "StepStats",
    "step_stats_text": "StepStats",
    "cost_graph_of_a_run": "CostGraphDef",
    "cost_graph": "CostGraphDef",
    "cost_graph_text": "CostGraphDef",
    "timeline": "Chrome trace",
    "profiler_trace": "Chrome trace",
    "profiler_trace_gzip": "Chrome trace",
    "xplane": "XPlane",
}


def graph() -> Any:
    import tensorflow as tf

    made = tf.Graph()
    with made.as_default():
        fed = tf.compat.v1.placeholder(tf.float32, [SIZE, SIZE], name="x")
        with tf.compat.v1.name_scope("layer"):
            product = tf.matmul(fed, tf.fill([SIZE, SIZE], 0.5, name="weights"), name="product")
            tf.reduce_sum(tf.nn.relu(product, name="relu"), axis=[0, 1], name="sum")
    return made


def write(folder: Path) -> None:
    import numpy as np
    import tensorflow as tf
    from tensorflow.python.client import timeline
    from tensorflow.python.profiler.internal import _pywrap_profiler_plugin as plugin

    v1 = tf.compat.v1
    config = v1.ConfigProto()
    config.graph_options.build_cost_model = 1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    made = graph()
    (folder / "graph.pb").write_bytes(made.as_graph_def(add_shapes=True).SerializeToString())
    session, fed = v1.Session(graph=made, config=config), {"x:0": np.ones((SIZE, SIZE), np.float32)}
    traced = v1.RunMetadata()
    for _ in range(2):
        session.run("layer/sum:0", fed, v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), traced)
    tf.profiler.experimental.start(str(folder / "profile"))
    for _ in range(STEPS):
        session.run("layer/sum:0", fed)
    tf.profiler.experimental.stop()
    (xplane,) = (folder / "profile").rglob("*.xplane.pb")
    # TensorFlow before 2.9 wrote this beside the planes, gzipped; later releases make it for TensorBoard
    trace, _ = plugin.xspace_to_tools_data([str(xplane)], "trace_viewer@", {})
    alone = v1.RunMetadata(cost_graph=traced.cost_graph)
    contents = {
        "run_metadata": traced.SerializeToString(),
        "step_stats": traced.step_stats.SerializeToString(),
        "step_stats_text": str(traced.step_stats).encode(),
        "cost_graph_of_a_run": alone.SerializeToString(),
        "cost_graph": traced.cost_graph.SerializeToString(),
        "cost_graph_text": str(traced.cost_graph).encode(),
        "timeline": timeline.Timeline(traced.step_stats).generate_chrome_trace_format().encode(),
        "profiler_trace": trace,
        "profiler_trace_gzip": gzip.compress(trace),
        "xplane": xplane.read_bytes(),
    }
    for name, content in contents.items():
        (folder / f"{name}.csv").write_bytes(content)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
