"""A fleet on one machine with no server installed: its processes, their supervisor and the data folder."""
