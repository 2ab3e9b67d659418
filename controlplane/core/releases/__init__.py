"""Kafka releases as data: one table of behaviours, one profile per release."""
