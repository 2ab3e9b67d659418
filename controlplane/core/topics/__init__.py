"""Topics, keys and partitions: names, owners of keys, Kafka's partitioner."""
