"""Audit streams and access logs: requests with their authors."""
