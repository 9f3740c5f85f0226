"""The tricky cases of TensorFlow's partitioner, each with the section of docs/tensorflow.md and what comes of it.

The pieces are worked out by hand, every node of them (worked.py tells how they are written); test_rules.py holds ours
against them without TensorFlow, tests/oracle/test_rules.py the real one's. In one process a device is "CPU:1", in a
cluster "worker:0/CPU:1". What a graph asks for is where its nodes are placed.
"""

from tests.partitioning import loop_rules, pair_rules

CASES = {**pair_rules.CASES, **loop_rules.CASES}
