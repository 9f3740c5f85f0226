"""Child process: the makespan of a function, of its graph and of the graph's message, each as TensorFlow holds it.

Told: one line with the makespan, or with several where they differ.
"""

from simulator import load_cluster
from viz import run


def main() -> None:
    import tensorflow as tf

    function = tf.function(lambda x: tf.nn.relu(x @ x)).get_concrete_function(tf.TensorSpec([64, 64]))
    given = (function, function.graph, function.graph.as_graph_def(add_shapes=True))
    print(*{run(one, cluster=load_cluster("1gpu")).trace.makespan for one in given})


if __name__ == "__main__":
    main()
