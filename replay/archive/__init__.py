"""Archives of control-plane logs: immutable segments, and manifests that vouch for them.

    cluster=C/
      _manifest/0000000001.json, …       what each append added, and the hash of the one before
      _snapshots/…                       what was folded up to a day's end
      topic=T/partition=P/
        segment-START-END-HASH.parquet   records, in the order of their offsets
        _winners-START-END-HASH.parquet  those of a segment that may still count

Nothing is ever changed or removed. A file counts once a manifest names it; one that no manifest
names was left by an append that died, and is nobody's. So an append is its manifest: there or not.

`store` is where files lie (`objects`: in an object store, of which `hadoop` has the settings),
`layout` how they are called, `segments` what is in one, `manifest` the chain, `cluster` what it
amounts to, `appending` adds to it, `verify` looks at every byte.
"""
