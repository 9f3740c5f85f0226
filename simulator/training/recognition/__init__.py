"""The parts of a training graph as it stands: variables, gradients, updates, batch, towers, synchronisation."""
