"""Clients side by side in one loop: who begins a step when, who waits for whom, what a run gives."""
