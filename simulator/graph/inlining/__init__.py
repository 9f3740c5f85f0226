"""Functions and functional control flow: expanded into a flat graph, or as far as TensorFlow does before it places.

`expanding` walks the graph; `calls`, `branches` and `loops` each know one construct, `rewriting` the other ops that
TensorFlow replaces; `bodies` reads a library function, `editor` is the graph while it is being rewritten.
"""

from simulator.graph.inlining.expanding import inline as inline
from simulator.graph.inlining.expanding import isolated as isolated
from simulator.graph.inlining.expanding import lower as lower
