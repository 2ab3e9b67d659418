"""Warnings of the Python API about answers that are not certain: `UncertainAnswer`."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import replay
from replay.doubts import UncertainAnswer
from replay.fleet.open_archive import OpenArchive
from replay.tables.schemas import STATE_SCHEMAS
from tests.recorded_requests import HISTORIES, recorded_entries
from tests.replay.archive.archives import NAME, capture, log_of
from tests.replay.cli.replay_calls import call

pytestmark = pytest.mark.slow

EARLY = "config@40"
"""Moment before the cut of the retention."""

LATER = "config@41"
CONFIG = "connect-configs"

QUERIES: list[tuple[str, Callable[[OpenArchive[Any]], Any]]] = [
    (f"timeline --as-of {EARLY}", lambda archive: archive.timeline(as_of=EARLY)),
    (
        f"history --connector pages --as-of {EARLY}",
        lambda archive: archive.history("pages", as_of=EARLY),
    ),
    (f"diff --from {EARLY} --to {LATER}", lambda archive: archive.diff(EARLY, LATER)),
    (f"audit --as-of {EARLY}", lambda archive: archive.audit(as_of=EARLY)),
    (
        f"compat --from 3.9 --to 3.4 --as-of {EARLY}",
        lambda archive: archive.compat("3.9", "3.4", as_of=EARLY),
    ),
]
"""Commands, and the same queries in Python."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of one log as two clusters; a retention has removed records of `thin`."""
    folder = tmp_path_factory.mktemp("uncertain") / "archive"
    log = HISTORIES / "life-3.9.log.jsonl"
    assert call("capture", f"thin={log}", folder).code == 0
    assert call("compact-archive", folder, "--retain", "1h").code == 0
    assert call("capture", f"whole={log}", folder).code == 0
    return folder


@pytest.fixture(scope="module")
def archive(folder: Path) -> OpenArchive[Any]:
    """Open archive of both clusters."""
    return replay.open(folder)


def warned(query: Callable[[], Any]) -> list[str]:
    """Messages of the warnings of a query."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        query()
    assert {warning.category for warning in caught} <= {UncertainAnswer}
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("table", STATE_SCHEMAS)
def test_every_table_of_a_state_warns(folder: Path, archive: OpenArchive[Any], table: str) -> None:
    """Each call warns once, with the lines of `replay state` about the cluster in doubt."""
    printed = call("state", folder, "--as-of", EARLY).err.strip()
    assert "removed by retention on" in printed
    assert "the earliest certain moment is" in printed
    for _ in range(2):
        assert warned(lambda: archive.state(table, as_of=EARLY)) == [printed]


@pytest.mark.parametrize(("command", "query"), QUERIES)
def test_other_queries_warn(
    folder: Path, archive: OpenArchive[Any], command: str, query: Callable[[OpenArchive[Any]], Any]
) -> None:
    """The warnings have the lines that the command prints, one warning per cluster."""
    name, *options = command.split()
    printed = call(name, folder, *options).err
    messages = warned(lambda: query(archive))
    assert any(message.startswith("thin: ") for message in messages)
    assert "".join(f"{message}\n" for message in messages) == printed


def test_views_of_one_moment_warn_once(archive: OpenArchive[Any]) -> None:
    """One call registers several tables of one moment, with one warning per cluster."""
    views: dict[str, Any] = {}
    messages = warned(lambda: archive.register_views(views.__setitem__, as_of=EARLY))
    assert list(views) == [*STATE_SCHEMAS]
    assert [message.partition(": ")[0] for message in messages] == ["thin"]


def test_a_program_can_refuse_uncertain_answers(archive: OpenArchive[Any]) -> None:
    """With Python's filter `error`, the query ends; the cluster is not skipped as unreadable."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UncertainAnswer)
        with pytest.raises(UncertainAnswer, match=r"^thin: .* removed by retention on "):
            archive.state(as_of=EARLY)


def test_certain_answers_do_not_warn(archive: OpenArchive[Any]) -> None:
    """At the end, both clusters are certain; tables with columns for doubts never warn."""
    assert warned(archive.state) == []
    for query in (archive.summaries, archive.partitions, archive.clusters):
        assert warned(query) == []
    assert warned(lambda: archive.summaries(as_of=EARLY)) == []


def test_gaps_are_in_the_warning(tmp_path: Path) -> None:
    """A gap makes an answer uncertain, too: the lost records may be the last of their keys."""
    entries = recorded_entries("life-3.9")
    for offsets in (range(10), range(20, len(entries))):  # the second log begins at offset 20
        others = [each for each in entries if each.topic != CONFIG or each.offset in offsets]
        capture(tmp_path, log_of(others))
    (message,) = warned(replay.open(tmp_path).state)
    sentence = "offsets 10 to 19 had been removed before they were archived"
    assert message == f"{NAME}: {CONFIG} partition 0: {sentence}"
