"""Life of connectors and tasks: start, pause, stop, restart, failure, and their statuses."""
