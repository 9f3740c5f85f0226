"""One algorithm, one file, one function, one paper: each takes a Problem and returns a Plan."""
