"""Logs of records: one contract (`log`), with several implementations."""
