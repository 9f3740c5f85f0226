"""The process of libFuzzer: it runs cases and counts the branches that they reach.

    python -m tests.fuzzing.guided_target SORTS FOLDER [-OPTION=VALUE ...]

atheris counts in what is imported under its eyes alone, so nothing of the project may be imported before.
"""

from __future__ import annotations

import os
import sys
import tempfile

import atheris

with atheris.instrument_imports(include=["simulator", "placement", "viz"], enable_loader_override=False):
    from tests.fuzzing.guided import case_of, mutated
    from tests.fuzzing.judging import hide_tensorflow, judged, load

    load()


def main() -> None:
    sorts = sys.argv[1].split("\n")
    hide_tensorflow()

    def target(data: bytes) -> None:
        case = case_of(data, sorts)
        if case is not None and not {"--check"} & set(case.arguments[2:]):
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                judged(case)
                os.chdir("/")

    def mutator(data: bytes, most: int, seed: int) -> bytes:
        return mutated(data, most, seed, sorts)

    atheris.Setup([sys.argv[0], *sys.argv[2:]], target, custom_mutator=mutator)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
