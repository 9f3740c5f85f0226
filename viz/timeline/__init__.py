"""The timeline: what runs where and when, as lanes, slices, arrows and counters; a step and a training fill it."""
