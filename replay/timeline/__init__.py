"""Intervals of facts: one pass over the records of an archive, for all releases.

`passes` visits records in the one order, in chunks. `shared_fold` uses as few folds as possible:
releases are separated only when they disagree about a record. `fact_tracker` finds the facts that
each record changes, `intervals` are the result. `config_digests` gives one digest per record of the
config topic and release. `connector_history` explains every record of one connector.
"""
