"""The record: what must never be lost, in SQLite or PostgreSQL."""
