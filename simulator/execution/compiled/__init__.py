"""The engine compiled: the same results as `execution.engine`, bit for bit, at the speed of machine code.

`kernel` is LLVM's door, `engine` the way in. `execution.arrays` and `execution.layouts` describe the arrays.
Nothing is loaded here: LLVM takes longer to load than a small step to simulate, so `choosing` does it where that pays.
"""
