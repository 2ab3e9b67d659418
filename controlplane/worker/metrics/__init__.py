"""Metrics of running connectors and tasks, under the names and with the meanings of Kafka's."""
