"""One observed step: what the ops of a graph did when TensorFlow ran it once, and what other rooms learn from that.

observed_step   the value: nodes, their runs, shapes and times
form            its file, of which nothing is trusted
fitting         a graph and its costs as observed; an observation of another graph is refused

Trips of loops and ways of branches are read from it by `execution.loops.observations`.
"""

SUFFIX = ".observed"  # of a file that keeps an observed step
