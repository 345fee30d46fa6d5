"""Whether answers get better: the harness, its statistics and its table."""
