"""Bodies made from the OpenAPI document, sent to a tiny server, and where one fails, to stock vLLM."""
