"""When it runs."""
