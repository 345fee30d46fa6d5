"""Pure PyTorch: profiles, phases, planes, masks, attention and QGPM; imports neither vLLM nor the packages above it."""
