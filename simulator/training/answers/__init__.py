"""Answers of a run: rates and their confidence, the bottleneck, scaling, memory bounds."""
