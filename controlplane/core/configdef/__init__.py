"""Kafka's config definitions: keys with types, defaults and validators (`ConfigDef`).

`keys` says what a definition consists of, `values` what becomes of the text under a key, `valid`
which values are taken, `check` what is wrong with a whole config.
"""
