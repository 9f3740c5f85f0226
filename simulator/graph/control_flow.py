"""The ops of TensorFlow's control flow, by what they do; most flat ones have a second form for references.

The classes are those of `Node::NodeClass` (tensorflow/core/graph/graph.cc).
"""

SWITCHES = frozenset({"Switch", "RefSwitch", "_SwitchN"})
MERGES = frozenset({"Merge", "RefMerge"})
ENTERS = frozenset({"Enter", "RefEnter"})
EXITS = frozenset({"Exit", "RefExit"})
NEXT_ITERATIONS = frozenset({"NextIteration", "RefNextIteration"})
TRIGGERS = frozenset({"ControlTrigger"})  # never dead: `is_control_trigger` of propagator_state.cc

# What the partitioner may move next to a value; RefEnter stays (`OptimizeControlFlowColocation`, graph_partition.cc).
MOVED = SWITCHES | EXITS | NEXT_ITERATIONS | {"Enter"}

# The functional forms, which inlining lowers to the flat ones.
IFS = frozenset({"If", "StatelessIf"})
CASES = frozenset({"Case", "StatelessCase"})
WHILES = frozenset({"While", "StatelessWhile"})
