"""The section on answers: what each method changes, where it loses, and what was not run."""
