"""Logs of a live Kafka cluster: the only package that imports a Kafka client."""
