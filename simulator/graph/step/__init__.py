"""Choose what one step runs: feeds and fetches -> the nodes that they need."""

from simulator.graph.step.choosing import Step as Step
from simulator.graph.step.choosing import choose_step as choose_step
from simulator.graph.step.choosing import fed_rows as fed_rows
