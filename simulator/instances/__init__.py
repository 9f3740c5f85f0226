"""Instances: files of placement problems that are no TensorFlow graphs, a module for each form."""
