"""Encodings of position, each a small module under one contract (`positional.encodings.contract`)."""
