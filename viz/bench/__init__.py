"""A bench: algorithms x graphs x clusters x budgets, a table of rows that can be continued, and what it shows."""
