"""Text as Jackson reads it: the encoding of a document and the characters of its strings.

Jackson guesses the encoding from the first four bytes (RFC 4627, ByteSourceJsonBootstrapper). UTF-8
is parsed as bytes, and each string is decoded leniently on its own. Overlong forms and values
beyond U+10FFFF are accepted. Jackson before 2.21 also accepts encoded surrogates. UTF-16 and UTF-32
are converted to UTF-16 units first.
"""

import re
import struct
from typing import Literal, NamedTuple

from controlplane.core.java.json_errors import Undecodable

_CHUNK = 4000
"""UTF-16 units that Jackson converts from UTF-32 at a time. It drops a chunk that contains a bad
character."""

_UTF32_BYTES = 4

_LAST_PLANE = 0x10
"""Last of Unicode's planes; a plane is the upper half of a character's number."""


class DocumentText(NamedTuple):
    """A document as units. `in_bytes`: a unit is a byte of UTF-8; otherwise it is one of UTF-16."""

    units: str
    in_bytes: bool
    broken: bool = False
    """The last unit is followed by something unreadable instead of the end."""


_Charset = Literal["utf-8", "utf-16-be", "utf-16-le", "utf-32-be", "utf-32-le"]

_FIRST_BYTES: tuple[tuple[bytes, _Charset | None, int], ...] = (
    (rb"\0\0\xfe\xff", "utf-32-be", 4),
    (rb"\xff\xfe\0\0", "utf-32-le", 4),
    (rb"\0\0\xff\xfe|\xfe\xff\0\0", None, 0),
    (rb"\xfe\xff..", "utf-16-be", 2),
    (rb"\xff\xfe..", "utf-16-le", 2),
    (rb"\xef\xbb\xbf.", "utf-8", 3),
    (rb"\0\0\0.", "utf-32-be", 0),
    (rb".\0\0\0", "utf-32-le", 0),
    (rb"\0.\0\0|\0\0.\0", None, 0),
    (rb"\0.", "utf-16-be", 0),
    (rb".\0", "utf-16-le", 0),
    (rb"", "utf-8", 0),
)
"""First bytes of a document (a pattern), encoding (None: refused), length of a byte order mark."""

_ENCODING_RULES = tuple(
    (re.compile(first, re.DOTALL), charset, mark) for first, charset, mark in _FIRST_BYTES
)


def read_text(value: bytes) -> DocumentText:
    """Units of a document; raises `Undecodable` for byte orders that Jackson refuses."""
    charset, mark = _guess_encoding(value)
    body = value[mark:]
    if charset is None:
        raise Undecodable("UTF-32 of a mixed byte order")
    if charset == "utf-8":
        return DocumentText(body.decode("latin-1"), in_bytes=True)
    order = ">" if charset.endswith("be") else "<"
    return _from_utf16(body, order) if charset.startswith("utf-16") else _from_utf32(body, order)


def _guess_encoding(value: bytes) -> tuple[_Charset | None, int]:
    """Encoding that Jackson guesses (None: refused), and length of the byte order mark in bytes."""
    return next((charset, mark) for first, charset, mark in _ENCODING_RULES if first.match(value))


def write_text(text: DocumentText, like: bytes) -> bytes:
    """Encode a document with the encoding and the byte order mark of the document `like`."""
    charset, mark = _guess_encoding(like)
    if text.in_bytes or charset is None:
        return like[:mark] + text.units.encode("latin-1")
    cut_off = b"\0" if text.broken else b""  # a part of a character, so that the end is broken
    return like[:mark] + joined(text.units).encode(charset, "surrogatepass") + cut_off


def unread_bytes(text: DocumentText, value: bytes) -> bytes:
    """Bytes after the last unit of a broken document; empty for any other."""
    if not text.broken:
        return b""
    characters = len(joined(text.units))
    return value[_guess_encoding(value)[1] + _UTF32_BYTES * characters :]


_UNPAIRED = re.compile("([\ud800-\udbff][\udc00-\udfff])|[\ud800-\udbff](?s:.)?|[\udc00-\udfff]")


def _from_utf16(body: bytes, order: str) -> DocumentText:
    """Units as Java's decoder reads them.

    A lone surrogate becomes U+FFFD; a high one also consumes the next unit. An odd byte at the end
    becomes U+FFFD, unless a high surrogate has consumed it.
    """
    count, remainder = divmod(len(body), 2)
    units = "".join(map(chr, struct.unpack_from(f"{order}{count}H", body)))
    tail = "\ufffd" if remainder and not "\ud800" <= units[-1:] <= "\udbff" else ""
    return DocumentText(
        _UNPAIRED.sub(lambda pair: pair[1] or "\ufffd", units) + tail, in_bytes=False
    )


def _from_utf32(body: bytes, order: str) -> DocumentText:
    """Decode UTF-32 to UTF-16 units.

    Broken: a number beyond U+10FFFF, or an incomplete last character.
    """
    count, remainder = divmod(len(body), 4)
    units: list[str] = []
    for code in struct.unpack_from(f"{order}{count}I", body):
        plane = code >> 16
        if plane > _LAST_PLANE:
            intact = len(units) // _CHUNK * _CHUNK
            return DocumentText("".join(units[:intact]), in_bytes=False, broken=True)
        units += split_pair(code - 0x10000) if plane else chr(code)
    return DocumentText("".join(units), in_bytes=False, broken=bool(remainder))


def utf32_error(value: bytes) -> str:
    """Jackson's message for the first invalid or incomplete character of broken UTF-32."""
    charset, mark = _guess_encoding(value)
    order = ">" if charset == "utf-32-be" else "<"
    whole = len(value) - (len(value) - mark) % _UTF32_BYTES
    units = 0
    for number, (code,) in enumerate(struct.iter_unpack(f"{order}I", value[mark:whole])):
        if code >> 16 > _LAST_PLANE:
            shown = code - 0x10000  # Jackson's message shows the code after this subtraction
            last = mark + _UTF32_BYTES * (number + 1) - 1
            above = f"Invalid UTF-32 character 0x{shown:x} (above 0x0010ffff)"
            return f"{above} at char #{units}, byte #{last})"
        units += 2 if code >> 16 else 1
    cut_off = f"Unexpected EOF in the middle of a 4-byte UTF-32 char: got {len(value) - whole}"
    return f"{cut_off}, needed 4, at char #{units}, byte #{len(value)})"


def split_pair(code: int) -> str:
    """Surrogate pair of a character, given its distance from U+10000."""
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 | code & 0x3FF)


_SHORT_ESCAPES = {
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    '"': '"',
    "/": "/",
    "\\": "\\",
}

_ESCAPE = re.compile(r"\\(?:u(....)|(.))")
_ESCAPE_OR_BYTES = re.compile(
    r"\\(?:u(....)|(.))"
    r"|([\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf7][\x80-\xbf]{3})|([\x80-\xff])"
)
_ESCAPED_SURROGATES = re.compile(
    r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u[dD]([89abAB]..|[c-fC-F]..)|\\."
)
"""One escape, or an escaped surrogate pair. The group is set only for half of a pair."""

_ESCAPED_PAIR = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..")

_LEAD_BITS = {2: 0x1F, 3: 0x0F, 4: 0x07}
"""Bits of the first byte that belong to the character, by length of the UTF-8 sequence."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def joined(units: str) -> str:
    """The text with each surrogate pair as one character."""
    if not _SURROGATE.search(units):
        return units
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _unescaped(escape: re.Match[str]) -> str:
    digits, short = escape.group(1, 2)
    return chr(int(digits, 16)) if digits else _SHORT_ESCAPES[short]


def _unescaped_bytes(escape: re.Match[str]) -> str:
    return _unescaped(escape).encode("utf-8", "surrogatepass").decode("latin-1")


class StringDecoder(NamedTuple):
    """Decodes the units between the quotes of strings, or of names (`is_name`).

    `in_bytes`: units are bytes. `encoded_surrogates`: UTF-8 may hold surrogates (CESU).
    """

    in_bytes: bool
    is_name: bool
    encoded_surrogates: bool

    def decode(self, body: str) -> str:
        """Characters of a string, whose escapes are well-formed.

        Raises:
            Undecodable: bytes are not UTF-8, or a name has half of an escaped surrogate pair.
        """
        if "\\" not in body:
            if body.isascii():
                return body
            if self.in_bytes:
                try:
                    return body.encode("latin-1").decode()
                except UnicodeDecodeError:
                    pass  # no valid UTF-8, but Jackson may accept it
        if not self.in_bytes:
            return joined(_ESCAPE.sub(_unescaped, body))
        if self.is_name and not self.encoded_surrogates:
            self._check_pairs(body)
        return joined(_ESCAPE_OR_BYTES.sub(self._character, body))

    def size(self, body: str) -> int:
        """Units of a string after replacing its escapes, in UTF-8 or UTF-16."""
        if not self.in_bytes:
            return len(_ESCAPE.sub(_unescaped, body))
        if not self.encoded_surrogates:
            body = _ESCAPED_PAIR.sub("four", body)  # any four bytes: a pair takes four in UTF-8
        return len(_ESCAPE.sub(_unescaped_bytes, body))

    def _character(self, match: re.Match[str]) -> str:
        sequence, stray = match.group(3, 4)
        if stray:
            raise Undecodable(f"byte {ord(stray):#04x} is not UTF-8")
        return self._decoded(sequence) if sequence else _unescaped(match)

    def _decoded(self, sequence: str) -> str:
        """Units of one UTF-8 sequence of 2 to 4 bytes; overlong forms are accepted."""
        code = ord(sequence[0]) & _LEAD_BITS[len(sequence)]
        for unit in sequence[1:]:
            code = code << 6 | ord(unit) & 0x3F
        if len(sequence) == 4:
            return self._pair(code - 0x10000)
        if 0xD800 <= code <= 0xDFFF and not self.encoded_surrogates:
            raise Undecodable(f"surrogate U+{code:04X} encoded as UTF-8")
        return chr(code)

    def _check_pairs(self, body: str) -> None:
        """Refuse half of an escaped surrogate pair in a name, from Jackson 2.21 on."""
        if any(escape[1] for escape in _ESCAPED_SURROGATES.finditer(body)):
            raise Undecodable("a name with half of a surrogate pair")

    def _pair(self, code: int) -> str:
        """Two units of a four-byte sequence; `code` counts from U+10000.

        `code` is negative for overlong forms. Jackson adds its upper bits to 0xD800 in names, but
        combines them with 0xD800 by `|` in other strings.
        """
        if code >= 0 or self.is_name:
            return split_pair(code)
        return chr(0xD800 | (code >> 10) & 0xFFFF) + chr(0xDC00 | code & 0x3FF)
