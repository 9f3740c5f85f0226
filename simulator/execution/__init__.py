"""Simulated time: a step is lowered to tasks on resources, and an event loop runs them."""
