"""Requests and responses of Kafka's protocol, and its error codes."""
