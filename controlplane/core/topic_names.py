"""Rules for names of Kafka's topics (Kafka: class `Topic`)."""

import re

MAX_CHARACTERS = 249
"""`Topic.MAX_NAME_LENGTH`."""

ALLOWED = f"1 to {MAX_CHARACTERS} letters, digits, dots, underscores and hyphens"
"""The rule as text; it omits that one or two dots alone are illegal."""

PATTERN = rf"^(?!\.{{1,2}}\Z)[a-zA-Z0-9._-]{{1,{MAX_CHARACTERS}}}\Z"
"""Regular expression of the rule."""
_LEGAL = re.compile(PATTERN, re.ASCII)


def is_legal(name: str) -> bool:
    """True if a topic can have this name."""
    return _LEGAL.fullmatch(name) is not None


GROUPS_TOPIC = "connect-group-offsets"
"""Topic with one partition: committed offsets of the consumer groups of an embedded log.

An embedded log works without brokers.
"""
