"""Programs: the graph and step of each client of a training, before anything is placed."""
