"""Pictures of times for papers: the timeline, memory and a comparison of two runs, as wide as a column."""
