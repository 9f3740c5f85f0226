"""A child process for the tests: a session whose stand-ins take only small messages."""

from simulator.oracle import child, session

if __name__ == "__main__":
    start = child.start
    child.start = lambda _: start("tests.oracle.standing_small")  # type: ignore[assignment, misc]
    child.serve(session.answering())
