"""Queries on archives: planned, reduced by kernels, folded by the core.

`plans` finds the cut at a moment and the rows to read. `partition_reader` reads and reduces them,
`states` folds the rest for each release, `snapshots` stores such states. `coverage` says which
offsets are missing, and what is doubtful without them. `local_engine` does all of it in this
process, `spark` in Spark; `executors` spread work on many items.
"""
