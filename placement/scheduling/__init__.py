"""What list schedulers share: ranks, ready ops, gaps between busy times, and a partial schedule."""
