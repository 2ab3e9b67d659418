"""Archives of control-plane logs: immutable segments under a chain of manifests.

    cluster=C/
      _manifest/0000000001.json, …       each append, with the hash of the previous manifest
      _snapshots/…                       folded states at the end of a day
      topic=T/partition=P/
        segment-START-END-HASH.parquet   records in the order of their offsets
        _winners-START-END-HASH.parquet  rows of a segment on which a state may depend
        _removed-START-END-HASH.parquet  offsets that retention has removed

A file counts once a manifest names it. An append that dies leaves files that no manifest names;
they have no effect. An append is therefore atomic.

No file changes, except the first manifest: after a merge, a signpost takes its place
(`manifest.Signpost`). A file that counts is removed only after the manifest of a merge has replaced
it.

`stores` hold the files: a folder, or an object store. `layout` names them, `segments` reads and
writes the records in them, `manifest` is the chain, `archived_cluster` the resulting view.
`appender` adds records, `merges` joins small files and removes old records (retention). `readings`
says how far captures have read, and `verification` checks every byte.
"""
