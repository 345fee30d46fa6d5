"""HTTP: OpenAI endpoints, request fields, the two passes of QGPM, metrics and the command line."""
