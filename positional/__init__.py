"""Pure PyTorch: profiles, phases, planes, masks, QGPM, encodings; imports neither vLLM nor the packages above it."""
