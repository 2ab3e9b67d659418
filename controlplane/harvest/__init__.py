"""Harvest of a catalogue: facts about plugins from a Connect worker or a folder of jars.

`worker_harvest` asks a worker over HTTP; `jar_harvest` runs Kafka's own classes in a JVM. Both
return a `Harvest`. `catalogue_file` makes the catalogue file, which holds Kafka's documentation
word for word.
"""
