"""Load a graph from any source: GraphDef, MetaGraph or SavedModel, binary or text, in a file or in memory."""

from simulator.graph.loading.opening import read_graph as read_graph
