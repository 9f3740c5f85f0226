"""Child process: a folder of events as TensorBoard reads it.

Asked: the folder on the command line. Told, as a line of JSON: the device of each node, and of each op its nanoseconds.
"""

import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def main() -> None:
    events = EventAccumulator(sys.argv[1])
    events.Reload()
    (tag,) = events.Tags()["run_metadata"]
    step = events.RunMetadata(tag).step_stats
    times = {line.node_name: line.op_end_rel_nanos for one in step.dev_stats for line in one.node_stats}
    print(json.dumps([{node.name: node.device for node in events.Graph().node}, times]))


if __name__ == "__main__":
    main()
