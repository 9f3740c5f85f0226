"""Expand function calls, If, Case and While into a flat graph, under the names that TensorFlow gives.

`expanding` walks the graph; `calls`, `branches` and `loops` each know one construct; `bodies` reads a library
function, `draft` is the graph while it is being rewritten.
"""

from simulator.graph.inlining.expanding import inline as inline
