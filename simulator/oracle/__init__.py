"""The only door to TensorFlow: ask the real one in a child process, and compare."""
