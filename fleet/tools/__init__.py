"""Tools: functions that a plan or a model may call."""
