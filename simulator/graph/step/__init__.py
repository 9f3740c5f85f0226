"""Choose what one step runs: feeds and fetches -> the nodes that they need, and what the client exchanges with them."""

from simulator.graph.step.choosing import Step as Step
from simulator.graph.step.choosing import choose_step as choose_step
from simulator.graph.step.exchange import Exchange as Exchange
from simulator.graph.step.exchange import exchange as exchange
from simulator.graph.step.exchange import is_tensor as is_tensor
