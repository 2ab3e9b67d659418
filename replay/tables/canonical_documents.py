"""Finds canonical documents without secrets in columns of JSON, by regular expressions of Arrow.

A document is *canonical* if every release decodes it alike and encodes it to the same bytes
(`core.codec.canonical_offsets`). Offsets have few *shapes*: sequences of field names. The first
document of a shape is decoded. Its field names become a pattern, which checks all other documents.
A pattern takes a fifth of the time of decoding and encoding.

The result may be False for a canonical document. It is never True for any other document, nor for
text that may hold a secret.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from controlplane.core.codec.canonical_offsets import are_canonical_keys, are_canonical_values
from controlplane.core.text.redaction import SECRET_STEMS

DocumentMask = npt.NDArray[np.bool_]
"""A flag for each row."""

SHAPES = 16
"""Limit of shapes of keys, and of values: it bounds the pattern. More shapes are decoded."""

FIELDS = 32
"""Limit of fields of a shape: it bounds the pattern, too. RE2 refuses very long ones."""

ATTEMPTS = 16
"""Limit of documents per column that are decoded to find new shapes: it bounds the time."""

_MAX_BYTES = 1000
"""Limit of bytes of a document, as in `core.codec.canonical_offsets`."""

_PLAIN = r"[ -!#-$'-\[\]-~]*"
"""Printable ASCII without quotes, and without characters that begin an escape (`has_escapes`)."""

_INTEGER = r"0|-?[1-9][0-9]{0,17}"
"""Integers below 10^18: they fit into a `long` of Java."""

_VALUE = rf'(?:"{_PLAIN}"|{_INTEGER}|true|false|null)'

_NAME = r'\["(?:[ !#-+\--\[\]-~][ !#-\[\]-~]*)?",'
"""Beginning of a key with a connector's name, which may hold any word.

No name begins with a comma: the first quote that a comma follows ends the name."""

_STEM = f"(?i:{'|'.join(map(re.escape, SECRET_STEMS))})"

_IS_PLAIN = re.compile(_PLAIN)

CanonicalCheck = Callable[[Sequence[bytes]], bool]
"""Checks whether all documents are canonical."""


class CanonicalDocuments:
    """Canonical documents of one kind; learns their shapes from column to column."""

    def __init__(self, begin: str, end: str, check: CanonicalCheck) -> None:
        """Create for documents whose fields lie between the patterns `begin` and `end`."""
        self._begin = begin
        self._end = end
        self._check = check
        self._secret = f"^{begin}.*{_STEM}" if begin else _STEM
        self._shapes: list[str] = []
        self._orders: dict[frozenset[str], tuple[str, ...]] = {}
        """Order of the fields of each shape, by their names."""

    @classmethod
    def keys(cls) -> "CanonicalDocuments":
        """Keys of offsets. No two shapes have the same names, so each key is a source partition."""
        return cls(_NAME, r"\]", are_canonical_keys)

    @classmethod
    def values(cls) -> "CanonicalDocuments":
        """Values of offsets."""
        return cls("", "", are_canonical_values)

    def among(self, documents: pa.Array) -> DocumentMask:
        """True for each canonical document without secrets; False for null."""
        is_canonical = self._matching(documents)
        for attempt in range(ATTEMPTS):
            others = np.flatnonzero(~is_canonical & _flags(documents.is_valid()))
            if not len(others):
                break
            # Another place each time: one odd document must not hide the shapes of others.
            if self._learn(documents[int(others[attempt * len(others) // ATTEMPTS])].as_py()):
                is_canonical[others] = self._matching(documents.take(pa.array(others)))
        short = pc.less_equal(pc.binary_length(documents), _MAX_BYTES)
        secret = pc.match_substring_regex(documents, self._secret)
        mask: DocumentMask = is_canonical & _flags(pc.and_not(short, secret))
        return mask

    def encoded_key(self, connector: str, fields: Mapping[str, Any]) -> bytes | None:
        """Encode a key as `among` may have accepted it; None: no shape has these fields."""
        order = self._orders.get(frozenset(fields))
        if order is None:
            return None
        try:
            return msgspec.json.encode([connector, {name: fields[name] for name in order}])
        except (UnicodeEncodeError, OverflowError):  # half surrogate pairs, or beyond a long
            return None

    def _matching(self, documents: pa.Array) -> DocumentMask:
        if not self._shapes:
            return np.zeros(len(documents), np.bool_)
        pattern = f"^{self._begin}(?:{'|'.join(self._shapes)}){self._end}$"
        return _flags(pc.match_substring_regex(documents, pattern))

    def _learn(self, document: bytes) -> bool:
        """Learn the shape of a document; False: it is not canonical, or beyond a limit."""
        if len(self._shapes) == SHAPES or not self._check([document]):
            return False
        decoded: Any = msgspec.json.decode(document)
        fields = tuple(decoded[1] if isinstance(decoded, list) else decoded)
        names = frozenset(fields)
        # Two orders of the same names may both be canonical, and name one source partition.
        if (
            names in self._orders
            or len(fields) > FIELDS
            or not all(map(_IS_PLAIN.fullmatch, fields))
        ):
            return False
        self._orders[names] = fields
        members = ",".join(f'"{re.escape(name)}":{_VALUE}' for name in fields)
        self._shapes.append(rf"\{{{members}\}}")
        return True


def _flags(column: pa.Array) -> DocumentMask:
    """Convert flags; null becomes False."""
    flags: DocumentMask = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return flags.copy()  # Arrow's memory may be read-only
