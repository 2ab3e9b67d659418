"""Kafka's config definitions: keys with types, defaults and validators (`ConfigDef`).

`key_definition` describes one key and `definition` a set of keys. `value_parser` parses the text
under a key, `validators` restricts its values, and `definition` validates a whole config.
"""
