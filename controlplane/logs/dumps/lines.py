"""Lines of a file, plain or gzipped, with their numbers."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, cast

from controlplane.core.text.file_errors import unreadable
from controlplane.logs.dumps.dump import DumpLine
from controlplane.logs.log import LogNotUsable

LINE_BYTES_MAX = 128 * 1024 * 1024
"""Maximum bytes of a line. Kafka's default limit of a record is 1 MiB, and JSON may need six bytes
for one. A file without line breaks must not fill the memory."""

_GZIP = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class CutOff(Exception):
    """A compressed file is damaged or incomplete; the lines before the damage were read."""


def read_lines(path: Path) -> Iterator[DumpLine]:
    """Yield all lines of a file.

    Raises:
        LogNotUsable: the file cannot be read, is empty, is UTF-16, or has too long a line.
        CutOff: the compressed data ends early.
    """
    try:
        with path.open("rb") as file:
            start = file.read(len(_UTF8_MARK))
            _check_start(path, start)
            file.seek(0 if start != _UTF8_MARK else len(start))
            yield from _unpacked_lines(path, file, is_gzip=start.startswith(_GZIP))
    except OSError as error:
        raise LogNotUsable(unreadable(path, error)) from error


def _check_start(path: Path, start: bytes) -> None:
    if not start:
        raise LogNotUsable(f"{path} is empty: there are no records in it, name another file")
    if start.startswith(_UTF16_MARKS):
        raise LogNotUsable(f"{path} is UTF-16 text: convert it, as by `iconv -f UTF-16 -t UTF-8`")


def _unpacked_lines(path: Path, file: IO[bytes], *, is_gzip: bool) -> Iterator[DumpLine]:
    if not is_gzip:
        yield from _lines(path, file)
        return
    with closing(gzip.GzipFile(fileobj=file)) as unpacked:
        try:
            yield from _lines(path, cast("IO[bytes]", unpacked))
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise CutOff(str(error)) from error


def _lines(path: Path, file: IO[bytes]) -> Iterator[DumpLine]:
    number = 0
    while text := file.readline(LINE_BYTES_MAX):
        number += 1
        whole = text.endswith(b"\n")
        if not whole and len(text) == LINE_BYTES_MAX:
            raise LogNotUsable(
                f"{path} is no dump (line {number} has more than {LINE_BYTES_MAX} bytes): "
                "name another file"
            )
        yield DumpLine(number, text[:-1] if whole else text, whole)
