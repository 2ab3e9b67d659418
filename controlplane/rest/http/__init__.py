"""HTTP server: connections, their limits, messages, and a cache of responses."""
