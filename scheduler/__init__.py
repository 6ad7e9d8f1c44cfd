"""What starts by the clock: the sweeper and the rebuild."""
