"""Texts in data files: each string of JSON, and each line of other files."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.conftest import ROOT
from tests.tidy.source import MADE, tracked

PARTS = ("controlplane", "tests", "scenarios")
"""Folders that hold catalogues and recordings."""

PACKED = ".gz"
JSON = (".json", ".jsonl", f".jsonl{PACKED}")


class Text(NamedTuple):
    """String of a data file.

    `place` has the keys that lead to it; list elements add nothing. `beside` has all keys of the
    object that holds it.
    """

    path: str
    place: tuple[str, ...]
    beside: frozenset[str]
    text: str

    @property
    def field(self) -> str:
        """Innermost key of the text's place; empty without a key."""
        return self.place[-1] if self.place else ""


def readable_files() -> Iterator[tuple[str, str]]:
    """Path and content of every file in these folders except Python."""
    for source in tracked():
        if source.path.startswith(PARTS) and not source.path.endswith(".py"):
            yield source.path, source.text
    yield from packed_files()


def all_files() -> Iterator[tuple[str, str]]:
    """Path and content of every text file of the repository, decompressed if necessary."""
    yield from ((source.path, source.text) for source in tracked())
    yield from packed_files()


def packed_files() -> Iterator[tuple[str, str]]:
    """Path and unpacked content of compressed files."""
    for part in PARTS:
        for path in sorted((ROOT / part).rglob(f"*{PACKED}")):
            if not MADE.intersection(path.relative_to(ROOT).parts):
                yield _named(path), gzip.decompress(path.read_bytes()).decode()


def _named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def texts(path: str, content: str) -> Iterator[Text]:
    """Yield all texts of a file: strings of JSON, or lines."""
    if not path.endswith(JSON):
        yield from (Text(path, (), frozenset(), line) for line in content.splitlines())
    elif path.endswith(".json"):
        yield from _strings(path, json.loads(content))
    else:
        for line in filter(str.strip, content.split("\n")):
            yield from _strings(path, json.loads(line))


def _strings(
    path: str, value: Any, place: tuple[str, ...] = (), beside: frozenset[str] = frozenset()
) -> Iterator[Text]:
    """Strings of a JSON value and its keys; a string that contains JSON is parsed."""
    match value:
        case str():
            inner = _opened(value)
            if inner is None:
                yield Text(path, place, beside, value)
            else:
                yield from _strings(path, inner, place, beside)
        case list():
            for element in value:
                yield from _strings(path, element, place, beside)
        case dict():
            keys = frozenset(value)
            for key, element in value.items():
                yield Text(path, (*place, "key"), keys, key)
                yield from _strings(path, element, (*place, key), keys)


def _opened(text: str) -> Any:
    """Object or list that a text encodes as JSON, else None."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None
