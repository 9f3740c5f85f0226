"""Child process: the makespan of a step of graphs, with TensorFlow hidden from the import system or not."""

import importlib.abc
import json
import sys
from collections.abc import Sequence


class Hidden(importlib.abc.MetaPathFinder):
    """A finder that has no TensorFlow, and asks nobody else."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> None:
        if name.partition(".")[0] in ("tensorflow", "keras"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main() -> None:
    if sys.argv[1] == "hidden":
        sys.meta_path.insert(0, Hidden())
    from viz import run

    makespans = []
    for path in sys.argv[2:]:
        trace = run(path, cluster="1gpu", ignore_devices=True, budget="50").trace
        makespans.append(int(trace.makespan))
    print(json.dumps(makespans))


if __name__ == "__main__":
    main()
