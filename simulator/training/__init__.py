"""Many steps, many clients: replicas of a graph, when each may take its next step, and what disturbs them."""
