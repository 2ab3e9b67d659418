"""Judgement of text that is no JSON: can it hold a secret?

No release reads such text, so secrets in it cannot be located. It is harmless only as plain UTF-8
without a trace of a secret: no secret word, no escapes, no encoded text with such a word. UTF-16,
compressed and other binary values are never harmless.
"""

import re
from typing import Final

from controlplane.core.text import redaction
from replay.capture import encoded_text

_SHORTEST: Final = 2
"""Length in bytes below which text holds no secret; its first unit stays anyway."""

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff\ufffe\uffff]")


def is_harmless(raw: bytes) -> bool:
    """True if a piece of a record that is no JSON can be archived unchanged."""
    if len(raw) < _SHORTEST:
        return True
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return False
    if _CONTROLS.search(text) or redaction.may_hold_secrets(text):
        return False
    return not encoded_text.may_hold_secrets(text)
