"""Where the relevance of sentences to a question can come from: one source a module, one interface."""
