"""The window's room for training: what is asked, how it is run, and what is said and drawn of it."""
