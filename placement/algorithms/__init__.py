"""One algorithm, one file, one function, one paper."""
