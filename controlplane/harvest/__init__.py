"""Harvest of a catalogue: facts about plugins from a Connect worker or a folder of jars.

`worker` asks a worker over HTTP, `jars` runs Kafka's own classes in a JVM. Both return a `Harvest`;
`written` makes the catalogue file of it, which holds Kafka's documentation word for word.
"""
