"""The search for a placement: what there is to decide, where to start, and a walk that is judged by the event loop.

`algorithms.search` is its way in. `decisions` says what can be decided, `starts` makes the first placements, `walk`
anneals, and `walks` does so side by side. What is compiled is in `compiled`, which is loaded where it pays.
"""
