"""Parts of list schedulers: ranks, ready ops, gaps between busy times, and a partial schedule."""
