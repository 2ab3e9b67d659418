"""HTTP requests to a worker, or to a log that this process serves."""
