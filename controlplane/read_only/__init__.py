"""Read-only access to a log: its service, and forecasts of commands."""
