"""Queries on archives: planned, reduced by kernels, folded by the core.

`moment_cut` finds the cut at a moment, `read_plan` the rows to read. `partition_reader` reads and
reduces them, `state_builder` folds the rest for each release. `daily_snapshots` stores such states.
`local_engine` does all of it in this process, `spark` in Spark.
"""
