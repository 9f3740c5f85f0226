"""Functions and functional control flow: expanded into a flat graph, or as far as TensorFlow does before it places.

expanding      the walk over the graph: `inline`, `lower`, `isolated`
calls          a function call, in place of which its body is copied
control_flow   If, Case and While
rewriting      other ops that TensorFlow replaces before placement
bodies         a library function as a graph
"""

from simulator.graph.inlining.expanding import inline as inline
from simulator.graph.inlining.expanding import isolated as isolated
from simulator.graph.inlining.expanding import lower as lower
