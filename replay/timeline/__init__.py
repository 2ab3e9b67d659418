"""Intervals of facts: one pass over the records of an archive, for all releases.

`passes` visits records in chunks, in the one order: the total order of all partitions
(`controlplane.core.order`). `shared_fold` uses as few folds as possible:
releases are separated only when they disagree about a record. `fact_tracker` finds the facts that
each record changes, `intervals` are the result. `config_digests` gives the change of the digest by
each record of the config topic. `digest_shares` adds the changes up, for each release.
`connector_history` explains every record of one connector.
"""
