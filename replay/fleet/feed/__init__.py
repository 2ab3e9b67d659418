"""Change feed of an archive: rows of what each batch of new records has changed.

    looks at the archive → batch → tasks (a cluster each) → rows of changes → commit of the batch

`positions` says how far each cluster was read. `cluster_batch` is the task: it goes on from the
snapshots of the last batch (`cluster_checkpoint`), and writes the rows (`feed_tables`).
`change_feed` runs batches, in this process or in Spark; `archive_stream` is the source of a stream.
"""
