"""Measures how an OpenAI-compatible server bears load; it needs only the server's URL."""
