"""Logs of a live Kafka cluster: the only package that imports a Kafka client.

`log` is the interface of a writable log, `reads/reader` of a read-only one. `appends` writes
records, and `reads` reads them back. Both send the requests of `protocol` to the brokers of
`cluster`. `admin` describes and changes topics and consumer groups.
"""
