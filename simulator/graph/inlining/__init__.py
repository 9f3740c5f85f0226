"""Functions and functional control flow: expanded into a flat graph, or as far as TensorFlow does before it places.

expanding   the walk over the graph: `inline`, `lower`, `isolated`
calls       a function call, in place of which its body is copied
lowering    If, Case and While, and other ops that TensorFlow replaces before placement
bodies      a library function as a graph
"""
