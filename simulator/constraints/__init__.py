"""Where each node may go by TensorFlow's rules, whoever decides: colocation groups, and the devices of each."""

from simulator.constraints.constraints import Constraints, constrain
from simulator.constraints.legality import require_legal

__all__ = ["Constraints", "constrain", "require_legal"]
