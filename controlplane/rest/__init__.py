"""Connect's HTTP surface: endpoints that read a log and run commands on it."""
