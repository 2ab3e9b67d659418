"""Kernels in Arrow and numpy: reduce many records to those that count.

A record *counts* if the state after all reduced records depends on it.

Kernels open no files and do not know Spark. A kernel gets the rows of one partition in the order of
their offsets. Only `last_values_of_parts` gets several small partitions. The rows are runs whose
columns are read on demand. A kernel reads as few columns as possible. Values are usually read last.
Only the values of records that count are copied. All engines run the same kernels.
"""
