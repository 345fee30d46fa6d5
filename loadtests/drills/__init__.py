"""Breaks servers on purpose, and looks at what survives; and one long mixed load."""
