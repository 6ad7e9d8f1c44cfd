"""The only code that knows a Redis key or a table."""
