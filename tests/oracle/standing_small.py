"""Stand-ins for the tests: their messages may have few bytes."""

from simulator.oracle import child, standin

BOUND = 3000

if __name__ == "__main__":
    child.MAX_MESSAGE_BYTES = BOUND
    standin.main()
