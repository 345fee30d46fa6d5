"""vLLM's side: rotary layer, step phases, block identity, key shadow and the plan of the loaded model."""
