"""Pure PyTorch: profiles, phases, planes and QGPM; imports neither vLLM nor the packages above it."""
