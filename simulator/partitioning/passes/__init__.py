"""The passes of a cut, in TensorFlow's order.

client         tensors that are fed and fetched get nodes on the client's device
replication    small constants are copied to where they are read
scheduling     with the option, each node's earliest start (and later the triggers that hold back Recvs)
control_flow   Switch, Exit, Enter and NextIteration move next to their values
control_loops  devices that take part in a loop from afar get a loop of their own
pairs          edges between locations become pairs of a Send and a Recv
"""
