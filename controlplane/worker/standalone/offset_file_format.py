"""Format of a standalone worker's offsets file: a serialized `HashMap<byte[], byte[]>` of Java.

Kafka: `FileOffsetBackingStore`; the format: Java Object Serialization Specification, chapter 6.
The decoder refuses any other Java object. The file contains the number of its entries, and the
length of each key and value. If the file ends before all of these entries and bytes, the decoder
refuses it, too. So wrong numbers never make the decoder use much time or memory: the size of the
file limits both.
"""

import struct
from collections.abc import Mapping
from typing import NoReturn

OffsetMap = Mapping[bytes | None, bytes | None]
"""Keys and values of the worker's offsets; a value None is a removed offset."""

_TC_NULL, _TC_REFERENCE, _TC_CLASSDESC, _TC_OBJECT, _TC_ARRAY, _TC_BLOCKDATA, _TC_ENDBLOCKDATA = (
    b"\x70", b"\x71", b"\x72", b"\x73", b"\x75", b"\x77", b"\x78",
)  # fmt: skip

_FIRST_HANDLE = 0x7E0000

_HEADER = struct.pack(">HH", 0xACED, 5)
_END_OF_CLASS = _TC_ENDBLOCKDATA + _TC_NULL


def _text(text: bytes) -> bytes:
    return struct.pack(">H", len(text)) + text


_MAP_CLASS = (
    _TC_CLASSDESC
    + _text(b"java.util.HashMap")
    + struct.pack(">QBH", 0x0507DAC1C31660D1, 3, 2)  # serialVersionUID, flags, number of fields
    + b"F"
    + _text(b"loadFactor")
    + b"I"
    + _text(b"threshold")
    + _END_OF_CLASS
)
_ARRAY_CLASS = (
    _TC_CLASSDESC + _text(b"[B") + struct.pack(">QBH", 0xACF317F8060854E0, 2, 0) + _END_OF_CLASS
)
_OPENING = _HEADER + _TC_OBJECT + _MAP_CLASS

_ARRAY_CLASS_HANDLE = _FIRST_HANDLE + 2
"""Handle of the class of arrays: the third, after those of the map's class and of the map."""
_FIRST_ARRAY_HANDLE = _FIRST_HANDLE + 3

_LEAST_BUCKETS = 16
"""Number of buckets of a new `HashMap` in Java."""
_LOAD_FACTOR = 0.75


class NoOffsetFile(ValueError):
    """The bytes are no offsets file; the message names the place, in bytes from 0."""


def encode_offsets(offsets: OffsetMap) -> bytes:
    """Return the bytes that a Java worker would write, in the order of the mapping."""
    buckets = _LEAST_BUCKETS
    while len(offsets) > buckets * _LOAD_FACTOR:
        buckets *= 2
    threshold = int(buckets * _LOAD_FACTOR) if offsets else 0
    parts = [
        _OPENING,
        struct.pack(">fi", _LOAD_FACTOR, threshold),
        _TC_BLOCKDATA + struct.pack(">Bii", 8, buckets, len(offsets)),
    ]
    array_class = _ARRAY_CLASS  # the first array describes its class; later ones refer to it
    for pair in offsets.items():
        for content in pair:
            if content is None:
                parts.append(_TC_NULL)
                continue
            parts += (_TC_ARRAY, array_class, struct.pack(">i", len(content)), content)
            array_class = _TC_REFERENCE + struct.pack(">i", _ARRAY_CLASS_HANDLE)
    parts.append(_TC_ENDBLOCKDATA)
    return b"".join(parts)


def decode_offsets(content: bytes) -> dict[bytes | None, bytes | None]:
    """Return the offsets in a file; of equal keys the last one counts.

    Raises:
        NoOffsetFile: the bytes are anything else.
    """
    return _MapReader(content).read()


class _MapReader:
    """Reads the one object of a file, from its beginning to its end."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._place = 0
        self._arrays: list[bytes] = []
        """Arrays in the order of their handles; a later one may be a reference to one of them."""
        self._class_is_known = False

    def read(self) -> dict[bytes | None, bytes | None]:
        self._expect(_OPENING, "a java.util.HashMap")
        _, size = self._numbers()
        # An entry takes two bytes or more: a size that is too large fails at the end of the file.
        offsets = {self._array(): self._array() for _ in range(size)}
        self._expect(_TC_ENDBLOCKDATA, "the end of the map")
        if self._place != len(self._content):
            self._refuse("the end of the file")
        return offsets

    def _numbers(self) -> tuple[int, int]:
        """Return the number of buckets and the number of entries."""
        self._take(8)  # load factor and threshold: Java computes them anew
        self._expect(_TC_BLOCKDATA + b"\x08", "the size of the map")
        buckets, size = struct.unpack(">ii", self._take(8))
        if size < 0:
            self._refuse("a size of the map that is not negative")
        return buckets, size

    def _array(self) -> bytes | None:
        """Return the next key or value."""
        kind = self._take(1)
        if kind == _TC_NULL:
            return None
        if kind == _TC_REFERENCE:
            return self._referenced()
        if kind != _TC_ARRAY:
            self._refuse("a byte[]")
        self._array_class()
        length = self._number()
        if length < 0:
            self._refuse("a length that is not negative")
        array = self._take(length)
        self._arrays.append(array)
        return array

    def _array_class(self) -> None:
        if self._class_is_known:
            reference = _TC_REFERENCE + struct.pack(">i", _ARRAY_CLASS_HANDLE)
            self._expect(reference, "the class byte[]")
        else:
            self._expect(_ARRAY_CLASS, "the class byte[]")
            self._class_is_known = True

    def _referenced(self) -> bytes:
        index = self._number() - _FIRST_ARRAY_HANDLE
        if not 0 <= index < len(self._arrays):
            self._refuse("a reference to a byte[]")
        return self._arrays[index]

    def _number(self) -> int:
        (number,) = struct.unpack(">i", self._take(4))
        assert isinstance(number, int)
        return number

    def _expect(self, expected: bytes, called: str) -> None:
        if self._content[self._place : self._place + len(expected)] != expected:
            self._refuse(called)
        self._place += len(expected)

    def _take(self, length: int) -> bytes:
        end = self._place + length
        if end > len(self._content):
            raise NoOffsetFile(f"it ends at byte {len(self._content)}, in the middle of the map")
        taken = self._content[self._place : end]
        self._place = end
        return taken

    def _refuse(self, expected: str) -> NoReturn:
        if self._place >= len(self._content) and expected != "the end of the file":
            raise NoOffsetFile(f"it ends at byte {len(self._content)}, in the middle of the map")
        raise NoOffsetFile(f"expected {expected} at byte {self._place}")
