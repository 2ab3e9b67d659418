"""Commands about a cluster: an HTTP client of Kafka Connect workers, ours and Kafka's.

A cluster is a worker's URL, or a log, which is then served within this process. `http/` connects
and sends requests, `connectors/` has the values, `commands/` has one file per verb.
"""
