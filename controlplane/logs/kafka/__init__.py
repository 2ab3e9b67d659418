"""Logs of a live Kafka cluster: the only place that knows a Kafka client."""
