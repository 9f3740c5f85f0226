"""The controller of a training: clients, synchronisation resources, counters, inputs; see `controller`."""
