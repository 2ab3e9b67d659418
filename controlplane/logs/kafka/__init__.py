"""Logs of a live Kafka cluster: the only package that imports a Kafka client.

`log` is the interface, `reads/reader` that of a log which is only read. A record passes through
`appends` and is read back by `reads`. Both send the requests of `protocol` to the brokers of
`cluster`. `admin` describes and changes topics and consumer groups.
"""
