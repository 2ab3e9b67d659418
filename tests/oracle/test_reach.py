"""Coverage of the random logs: a case that never occurs proves nothing.

The logs reach the fates of every kind of record in old, middle and new releases. They also reach
every line that reads records: in the three folds, the bulk loader and the codecs. `ELSEWHERE` lists
code that only reads snapshots or states, or writes, with the tests that prove it. The lines of
`kip` are reached, too, although no classes of Kafka exist for it: the laws prove `kip`.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from inspect import CO_OPTIMIZED
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from controlplane.core.codec import config as config_codec
from controlplane.core.codec import offsets as offsets_codec
from controlplane.core.codec import status as status_codec
from controlplane.core.entry import Entry
from controlplane.core.fold import (
    FateKind,
    Fold,
    bulk,
    config,
    live_statuses,
    offsets,
    record_fate,
    status,
)
from controlplane.core.releases.profiles import Profile
from tests.jars import ROOT
from tests.oracle.case import OWN, TOPICS, Case
from tests.oracle.logs import case, cases
from tests.oracle.our_answer import of_fold, of_loader

# --- fates --------------------------------------------------------------------------------------

LOGS = 1_000

LETTERS = {kind.value[0]: kind for kind in FateKind}
"""Accepted, ignored, undecodable, loses batch, poison; `x` is a record that no store reads."""

FATES = {
    # by release:           0.10.0   2.8      3.5.0    4.3
    "connector-":          ("aiux",  "aiux",  "aiux",  "aiux"),
    "task-":               ("aipux", "aipux", "aiux",  "aiux"),
    "commit-":             ("ailux", "ailux", "ailux", "ailux"),
    "target-state-":       ("aiux",  "aiux",  "aiux",  "aiux"),
    "tasks-fencing-":      ("iux",   "iux",   "ailux", "ailux"),
    "session-key":         ("iux",   "aipux", "aipux", "aipux"),
    "restart-connector-":  ("iux",   "iux",   "aiux",  "aiux"),
    "logger-cluster-":     ("iux",   "iux",   "iux",   "aiux"),
    "status-connector-":   ("ai",    "ai",    "ai",    "ai"),
    "status-task-":        ("ai",    "ai",    "ai",    "ai"),
    "status-topic-":       ("i",     "ai",    "ai",    "ai"),
    "offset":              ("ax",    "ax",    "ailpx", "aix"),
    "own offset":          ("ax",    "ax",    "ailpx", "aix"),
    "another key":         ("iux",   "iux",   "iux",   "iux"),
    "no key":              ("pux",   "pux",   "pux",   "pux"),
}  # fmt: skip

ASKED = ("0.10.0", "2.8", "3.5.0", "4.3")


def kind_of(entry: Entry) -> str:
    """The first kind with this prefix of the key; for offsets, the topic."""
    if entry.topic in (TOPICS.offsets, OWN):
        return "offset" if entry.topic == TOPICS.offsets else "own offset"
    if entry.key is None:
        return "no key"
    key = entry.key
    return next((kind for kind in FATES if key.startswith(kind.encode())), "another key")


def fates(release: str) -> Mapping[str, AbstractSet[str]]:
    """Letters of the fates that occur, by kind of record; reading ends once none is missing."""
    letters: dict[str, set[str]] = defaultdict(set)
    for log in islice(cases(f"reach/{release}"), LOGS):
        fold = Fold(Profile.of(release), exactly_once=log.exactly_once)
        for entry in log.entries:
            fate = fold.apply(entry).kind.value[0]
            letters[kind_of(entry)].add("x" if log.drops(entry) else fate)
        if not missing_fates(release, letters):
            break
    return letters


def missing_fates(
    release: str, occurring: Mapping[str, AbstractSet[str]]
) -> dict[str, AbstractSet[str]]:
    """Fates of the table that do not occur, by kind of record."""
    column = ASKED.index(release)
    missing = {kind: {*row[column]} - occurring.get(kind, set()) for kind, row in FATES.items()}
    return {kind: absent for kind, absent in missing.items() if absent}


@pytest.mark.slow
@pytest.mark.parametrize("release", ASKED)
def test_random_logs_reach_every_fate_of_every_kind(release: str) -> None:
    """At most a thousand logs contain every fate in the table."""
    assert not missing_fates(release, fates(release))


def test_files_of_elsewhere_exist() -> None:
    """Every file that `ELSEWHERE` names exists."""
    assert all((ROOT / file).is_file() for file in ELSEWHERE.values())


def test_letters_are_fates() -> None:
    """Each fate has a letter of its own."""
    assert len(LETTERS) == len(FateKind)
    assert "x" not in LETTERS


# --- lines --------------------------------------------------------------------------------------

READING = (config, status, offsets, live_statuses, bulk, record_fate)
CODECS = (config_codec, status_codec, offsets_codec)

ELSEWHERE = {
    ("adopt",): "tests/laws/test_snapshots.py",
    ("of", "offset", "session_key"): "tests/replay/timeline/test_config_digests.py",
    ("encode_config", "_content", "_both_states"): "tests/test_written_bytes.py",
    ("encode_status", "_status_content", "_activity_content"): "tests/test_written_bytes.py",
    ("encode_partition",): "tests/core/test_written_offsets.py",
    ("load_entries",): "tests/replay/lint/test_rehearsal.py",
    ("plain_fields",): "tests/replay/tables/test_offset_batches.py",
}

NO_LOGS = frozenset(name for names in ELSEWHERE for name in names)

RELEASES = ("0.9", "0.10.0", "2.8", "3.4", "3.5.0", "3.6.2", "3.9", "4.3", "kip")
LOGS_TRACED = 400

RARE = {
    "0.9": (155, 160),
    "2.8": (47, 139, 167),
    "3.4": (142,),
    "3.5.0": (31, 61, 144),
    "3.6.2": (5, 23, 79, 94, 133, 148, 198),
    "4.3": (1, 3, 8, 69, 79),
    "kip": (51, 59, 124, 127),
}
"""Logs by release that together reach every line; they come first, because few suffice."""

CodeLine = tuple[str, int]


def lines_of(code: CodeType) -> Iterator[int]:
    """The lines of all functions in a piece of code, except those with proofs elsewhere."""
    for part in code.co_consts:
        if isinstance(part, CodeType) and part.co_name not in NO_LOGS:
            if part.co_flags & CO_OPTIMIZED:  # a function, not the body of a class
                own = {line for _, _, line in part.co_lines() if line is not None}
                yield from own - {part.co_firstlineno}
            yield from lines_of(part)


class Traced:
    """Records which lines of some files run."""

    def __init__(self, files: AbstractSet[str]) -> None:
        self.files = files
        self.lines: set[CodeLine] = set()
        self._unseen: dict[CodeType, set[int]] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        """Record lines: `sys.settrace` calls this for a function, and then for its lines.

        A function whose lines have all run is traced no longer: tracing slows it down tenfold.
        """
        code = frame.f_code
        if code.co_filename not in self.files:
            return None
        unseen = self._unseen.get(code)
        if unseen is None:
            unseen = {line for _, _, line in code.co_lines() if line is not None}
            self._unseen[code] = unseen - {code.co_firstlineno}
        elif not unseen:
            return None
        if event == "line":
            self.lines.add((code.co_filename, frame.f_lineno))
            unseen.discard(frame.f_lineno)
        return self


def forget() -> None:
    """Empty the caches, so that lines run again that another test has run."""
    for module in (*READING, *CODECS):
        for member in vars(module).values():
            if hasattr(member, "cache_clear"):
                member.cache_clear()


def logs_to_trace() -> Iterator[tuple[Case, Profile]]:
    """The logs in `RARE`, then logs of every release in turn."""
    for release, numbers in RARE.items():
        for number in numbers:
            yield case(f"reach/{release}/{number}"), Profile.of(release)
    for number in range(LOGS_TRACED):
        for release in RELEASES:
            yield case(f"reach/{release}/{number}"), Profile.of(release)


@pytest.mark.slow
def test_logs_reach_every_line_that_reads() -> None:
    """The generated logs reach every line of the readers and codecs."""
    files = {str(module.__file__) for module in (*READING, *CODECS)}
    sources = {file: Path(file).read_text(encoding="utf-8") for file in files}
    every = {
        (file, line)
        for file, text in sources.items()
        for line in lines_of(compile(text, file, "exec"))
    }
    forget()
    traced, before = Traced(files), sys.gettrace()
    try:
        for log, profile in logs_to_trace():
            # Set for each log: a stack overflow inside of the trace function ends the tracing.
            sys.settrace(traced)
            of_fold(log, profile)
            of_loader(log, profile)
            sys.settrace(before)
            if not every - traced.lines:
                break
    finally:
        sys.settrace(before)
    missing = sorted(every - traced.lines)
    assert not [f"{file}:{line} {sources[file].splitlines()[line - 1]}" for file, line in missing]
