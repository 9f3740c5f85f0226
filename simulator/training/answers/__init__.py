"""What a run says: rates, how sure they are, what holds it back, how it scales."""
