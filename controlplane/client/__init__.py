"""Commands about a cluster: an HTTP client of workers, this project's and Kafka's.

A cluster is a worker's URL, or a log, which is then served within this process. `http/` connects
and sends requests. `connectors/` has connectors and offsets as values, `migration/` moves a
connector to another cluster, and `commands/` has the verbs.
"""
