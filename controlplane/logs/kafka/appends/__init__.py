"""Appends of records: in transactions, or idempotent, or each for itself."""
