"""A log that is only read: its service and its planner, which writes nothing."""
