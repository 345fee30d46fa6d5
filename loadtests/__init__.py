"""Measures Ropeway against stock vLLM over HTTP."""
