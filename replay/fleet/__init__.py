"""Queries on archives of whole fleets: as Arrow tables, Spark data frames, or Parquet files.

A query is a value: it names the archive and the clusters, and can be sent to another process. Each
cluster is opened, planned and folded where its rows are needed: in this process or in a Spark task.
`open_archive.OpenArchive` is the public API, which `replay.open` returns.
"""
