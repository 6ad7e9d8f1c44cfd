"""Use cases: read once, decide, write once."""
