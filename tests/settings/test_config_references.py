"""References to config providers in texts, compared with Kafka's regular expression."""

import re

from hypothesis import given
from hypothesis import strategies as st

from controlplane.settings.config_references import (
    ConfigReference,
    has_references,
    replace_references,
)

KAFKAS = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
"""The pattern of `ConfigTransformer`."""


@given(st.text(alphabet="${}:a", max_size=24))
def test_references_are_kafkas(text: str) -> None:
    """Provider, path and key of each reference, and the text around them, are Kafka's."""
    references: list[ConfigReference] = []

    def replaced(reference: ConfigReference) -> str:
        references.append(reference)
        return "<>"

    assert replace_references(text, replaced) == KAFKAS.sub("<>", text)
    assert references == [
        ConfigReference(reference[0], reference[1], reference[3] or "", reference[4])
        for reference in KAFKAS.finditer(text)
    ]
    assert has_references(text) is bool(references)
