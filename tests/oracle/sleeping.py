"""A grandchild for the tests: sleeps until it is killed."""

import time

from simulator.oracle.child import die_with_parent

if __name__ == "__main__":
    die_with_parent()
    time.sleep(1000)
