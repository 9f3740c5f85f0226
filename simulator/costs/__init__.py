"""Costs: the time of each op on each kind of device, estimated or measured."""
