"""What the topics of Kafka may be called (Kafka: class `Topic`)."""

import re

MAX_CHARACTERS = 249
"""`Topic.MAX_NAME_LENGTH`."""

ALLOWED = f"1 to {MAX_CHARACTERS} letters, digits, dots, underscores and hyphens"
"""The rule, for sentences; that one or two dots alone are no name, nobody has to be told."""

PATTERN = rf"^(?!\.{{1,2}}\Z)[a-zA-Z0-9._-]{{1,{MAX_CHARACTERS}}}\Z"
_LEGAL = re.compile(PATTERN, re.ASCII)


def is_legal(name: str) -> bool:
    """Whether a topic can have this name."""
    return _LEGAL.fullmatch(name) is not None
