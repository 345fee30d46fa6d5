"""Pure PyTorch: profiles, phases, masks, QGPM, encodings; imports neither vLLM nor the packages above it."""
