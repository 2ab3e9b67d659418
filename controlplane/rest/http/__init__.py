"""The HTTP server: connections, responses, request targets, error pages."""
