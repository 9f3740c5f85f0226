"""Pipelines: a step split into microbatches, which pass through stages on several devices."""
