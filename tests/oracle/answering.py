"""A child process for the tests: does what its first argument says."""

import os
import sys
import time
from pathlib import Path

from simulator.errors import OracleError
from simulator.oracle import child


def work(payload: bytes) -> bytes:
    match sys.argv[1:]:
        case ["reverse"]:
            return payload[::-1]
        case ["grow"]:
            return payload * 100
        case ["chatter"]:
            print("o" * 2**20)
            sys.stderr.write("e" * 2**20)
            return payload
        case ["refuse"]:
            raise OracleError("TensorFlow refuses", refusal="Cannot assign a device")
        case ["missing"]:
            raise ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow")
        case ["missing other"]:
            raise ModuleNotFoundError("No module named 'grpc'", name="grpc")
        case ["fail"]:
            raise ValueError("the reason, on the last line")
        case ["die"]:
            os._exit(7)
        case ["cut short"]:
            pipe = next(n for n in range(3, 100) if _is_open(n))  # `serve` keeps it for the answer
            os.write(pipe, b"\x10\0\0\0\0\0\0\0+half")
            os._exit(0)
        case ["hang", told]:
            sleeper = child.start("tests.oracle.sleeping")
            _tell(Path(told), [os.getpid(), sleeper.pid])
            time.sleep(1000)
        case ["leave a process", told]:
            sleeper = child.start("tests.oracle.sleeping")
            _tell(Path(told), [os.getpid(), sleeper.pid])
            return b"done"
    raise AssertionError(sys.argv)


def _is_open(descriptor: int) -> bool:
    return Path(f"/proc/self/fd/{descriptor}").exists()


def _tell(file: Path, pids: list[int]) -> None:
    part = file.with_suffix(".part")
    part.write_text(" ".join(map(str, pids)))
    part.rename(file)


if __name__ == "__main__":
    child.serve(work)
