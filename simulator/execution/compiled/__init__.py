"""The engine compiled: the same results as `execution.engine`, bit for bit, at the speed of machine code.

`kernel` is numba's door, `engine` the way in; what `loop` needs is in a module per thing. Arrays are told of in
`execution.flat`. Nothing is loaded here: numba takes longer to load than a small step to simulate, so `choosing` does
it where that pays.
"""
