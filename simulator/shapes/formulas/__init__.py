"""The rules that the table of shapes names, by family."""
