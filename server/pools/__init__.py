"""What samples are made of, split by split."""
