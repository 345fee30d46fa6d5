"""Pure PyTorch: profiles, phases, planes, masks, QGPM; imports neither vLLM nor the packages above it."""
