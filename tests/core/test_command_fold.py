"""Commands that the fold keeps: all unfinished ones, and the last few ended ones."""

from collections.abc import Iterable

import pytest

from controlplane.core.codec import encode_command
from controlplane.core.entry import Entry
from controlplane.core.fold import Fold, commands
from controlplane.core.records import (
    CommandAccepted,
    CommandFinished,
    CommandRecord,
    CommandRefused,
)
from controlplane.core.releases.profiles import Profile

KEPT = 3


@pytest.fixture(autouse=True)
def few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fold keeps only three ended commands."""
    monkeypatch.setattr(commands, "ENDED_KEPT", KEPT)


def accepted(command_id: str) -> CommandRecord:
    """Return the record of an accepted command."""
    return CommandAccepted(command_id, 1, "ana", {})


def finished(command_id: str) -> CommandRecord:
    """Return the record of a finished command."""
    return CommandFinished(command_id, 2, {})


def refused(command_id: str) -> CommandRecord:
    """Return the record of a refused command."""
    return CommandRefused(command_id, 2, "ana", {}, "no")


def remembered(*records: CommandRecord | tuple[bytes | None, bytes | None]) -> list[str]:
    """Ids that a fold of these records keeps, in its order; a stepwise fold keeps the same."""
    pairs = [record if isinstance(record, tuple) else encode_command(record) for record in records]
    log = [Entry("connect-commands", 0, n, n, *pair) for n, pair in enumerate(pairs)]
    fold = Fold(Profile.of("kip"))
    fold.apply_all(log)
    assert list(published_each_time(log)) == list(fold.snapshot().commands)
    return list(fold.snapshot().commands)


def published_each_time(log: Iterable[Entry]) -> Iterable[str]:
    """Ids that are kept if a new fold adopts the state after each record."""
    fold = Fold(Profile.of("kip"))
    for entry in log:
        fold.apply(entry)
        before, fold = fold, Fold(Profile.of("kip"))
        fold.adopt(
            "connect-commands", before.topic_snapshot("connect-commands"), [entry.offset + 1]
        )
    return fold.snapshot().commands


def test_the_first_to_end_is_forgotten_first() -> None:
    """The first command that ended is forgotten first; a refusal is an end."""
    ids = "abcd"
    assert remembered(*map(accepted, ids), *map(finished, "dcba")) == ["c", "b", "a"]
    assert remembered(finished("x"), refused("y"), finished("z"), refused("w")) == ["y", "z", "w"]


def test_unfinished_commands_are_never_forgotten() -> None:
    """An unfinished command stays, however many others end, and can still end."""
    many = [finished(str(n)) for n in range(10)]
    assert remembered(accepted("old"), *many) == ["old", "7", "8", "9"]
    assert remembered(accepted("old"), *many, finished("old")) == ["8", "9", "old"]


def test_a_second_end_keeps_the_order() -> None:
    """A second *finished* record does not move a command to the end."""
    log = [finished("a"), finished("b"), finished("a"), finished("c"), finished("d")]
    assert remembered(*log) == ["b", "c", "d"]


def test_a_refused_command_that_is_accepted_later_is_unfinished() -> None:
    """A later command may use the id of a refused one."""
    many = [finished(str(n)) for n in range(10)]
    assert remembered(refused("k"), accepted("k"), *many) == ["k", "7", "8", "9"]


def test_an_id_that_is_used_again_is_unfinished() -> None:
    """Compaction may keep the end of a forgotten command; a later one may use its id."""
    fold = Fold(Profile.of("kip"))
    records = [finished("k"), CommandAccepted("k", 3, "ana", {}, {"steps": []})]
    fold.apply_all(
        Entry("connect-commands", 0, n, n, *encode_command(record))
        for n, record in enumerate(records)
    )
    trace = fold.snapshot().commands["k"]
    assert trace.unfinished
    assert trace.accepted is not None
    assert trace.accepted.plan == {"steps": []}
    assert remembered(*records, finished("l"), finished("m")) == ["k", "l", "m"]


def test_unfinished_commands_are_in_order_of_acceptance() -> None:
    """A refused command that is accepted later comes after those accepted in between."""
    log = [refused("a"), accepted("b"), accepted("a")]
    assert remembered(*log) == ["b", "a"]
    assert remembered(*log, accepted("b")) == ["b", "a"]


def test_a_tombstone_removes_a_command() -> None:
    """A tombstone forgets a command; a tombstone whose key is no id changes nothing."""
    log = [finished("a"), finished("\ud800"), (b"a", None), (b"\xff", None), (None, None)]
    assert remembered(*log) == ["\ud800"]
    assert remembered(*log, finished("b"), finished("c"), finished("d")) == ["b", "c", "d"]
    assert remembered(finished("\ud800"), ("\ud800".encode("utf-8", "surrogatepass"), None)) == []


def test_causes_do_not_grow_with_commands() -> None:
    """The fold keeps no causes of commands: it would grow without bound."""
    fold = Fold(Profile.of("kip"))
    pair = encode_command(finished("a"))
    fold.apply(Entry("connect-commands", 0, 0, 0, *pair))
    assert not fold.snapshot().causes
