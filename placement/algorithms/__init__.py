"""One algorithm, one file, one function, one source: each takes a Problem and returns a Plan."""
