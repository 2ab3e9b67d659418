"""Connectors as a cluster reports them, as files declare them, and as arguments select them."""
