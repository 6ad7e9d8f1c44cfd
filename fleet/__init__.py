"""A fleet of Celery workers that pursues goals: planned as a DAG, run in parallel, joined, replanned."""

__version__ = "0.1.0"
