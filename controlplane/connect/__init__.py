"""API for authors of connectors."""
