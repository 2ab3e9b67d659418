"""Snapshots of audit passes: a restored pass finds the same as an uninterrupted one."""

import os
import pickle
from typing import Any

import msgspec
import pytest

from controlplane.core.releases.profiles import Profile
from replay.audit import ClusterLog, audited
from replay.audit.audit_pass import AuditPass, AuditSubject
from replay.audit.pass_snapshot import FrozenPass, UnusableSnapshot, frozen, thawed
from tests.recorded_requests import recorded_entries

SUBJECT = AuditSubject("lab", Profile.of("kip"))


@pytest.mark.parametrize("name", ["aborted-3.9", "odd-records-3.9", "roll-3.4-3.9-3.4"])
def test_an_interrupted_pass_finds_the_same(name: str) -> None:
    """A pass that is frozen and thawed after every third record has the same findings."""
    entries = recorded_entries(name)
    expected = audited(ClusterLog(SUBJECT.name, entries, SUBJECT.profile))
    running, findings = AuditPass(SUBJECT), []
    for number, entry in enumerate(entries):
        findings += running.take(entry)
        if not number % 3:
            running = thawed(frozen(running), SUBJECT)
    assert (*findings, *running.pending()) == expected.findings
    assert running.shares() == expected.shares


class _Command:
    """Object that runs a command when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, ("exit 1",)


def changed(**fields: object) -> bytes:
    """Snapshot of a new pass, with some fields changed."""
    snapshot = msgspec.msgpack.decode(frozen(AuditPass(SUBJECT)), type=FrozenPass)
    return msgspec.msgpack.encode(msgspec.structs.replace(snapshot, **fields))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (changed(rest=pickle.dumps(_Command())), "posix.system is no part of an audit"),
        (changed(rest=pickle.dumps(print)), "builtins.print is no part of an audit"),
        (
            changed(rest=b"creplay.audit.pass_snapshot\nTopics\n."),
            "replay.audit.pass_snapshot.Topics is no part of an audit",
        ),
        (changed(rest=b"creplay.audit.nowhere\nThing\n."), "No module named"),
        (changed(rest=b""), "Ran out of input"),
        (changed(version="0.0.1"), "version 0.0.1 has written it"),
        (b"nothing", "Expected `object`"),
    ],
)
def test_foreign_snapshots_are_refused(content: bytes, complaint: str) -> None:
    """Thawing a snapshot runs no code; another version's snapshot is refused."""
    with pytest.raises(UnusableSnapshot, match=complaint):
        thawed(content, SUBJECT)
