"""The page on encodings, made from what they say of themselves and from their scores."""
