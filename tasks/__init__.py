"""The Celery side of a worker: decode a message, carry a slot."""
