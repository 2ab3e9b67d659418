"""Decisions over small logs, and plans as text: `{"config": ['connector-a {"properties":{}}']}`."""

import json
from collections.abc import Iterable
from typing import Any

from controlplane.core.commands import AnyCommand
from controlplane.core.context import Context
from controlplane.core.decide import decide
from controlplane.core.decide.steps import is_step
from controlplane.core.entry import Entry
from controlplane.core.plan import Decision, Plan, Rejected
from controlplane.core.plugins import parse_catalogue
from controlplane.core.releases.profiles import Profile
from tests.core.logs import Pair, config, raw, read

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
PLUGINS = parse_catalogue(
    json.dumps([{"class": SOURCE, "type": "source"}, {"class": SINK, "type": "sink"}]).encode()
)

PROPERTIES = {"connector.class": SOURCE, "topic": "t", "file": "f"}
"""A config that every release accepts."""

RELEASES = ("2.8", "3.4", "3.6", "3.7", "3.9", "4.3")
"""One release for each way of writing connectors."""


def decided(
    log: Iterable[Pair | Entry],
    command: AnyCommand,
    release: str = "kip",
    *,
    exactly_once: bool = False,
    **context: Any,
) -> Decision:
    """Decision after these entries; pairs are records of the config topic."""
    log = list(log)
    entries = [entry for entry in log if isinstance(entry, Entry)]
    pairs = [entry for entry in log if not isinstance(entry, Entry)]
    state = read([*config(*pairs), *entries], release, exactly_once=exactly_once)
    return decide(state, command, context_of(release, **context))


def context_of(release: str, **settings: Any) -> Context:
    """A context that knows one class of each kind."""
    return Context(profile=Profile.of(release), **({"plugins": PLUGINS} | settings))


def planned(
    log: Iterable[Pair | Entry], command: AnyCommand, release: str = "kip", **settings: Any
) -> Plan:
    """Plan decided after these entries; any other decision fails the test."""
    decision = decided(log, command, release, **settings)
    assert isinstance(decision, Plan), decision
    assert all(is_step(step.name) for step in decision.steps)
    return decision


def steps(
    log: Iterable[Pair | Entry], command: AnyCommand, release: str = "kip", **settings: Any
) -> dict[str, list[str]]:
    """The records of a plan as text, by the names of its steps."""
    plan = planned(log, command, release, **settings)
    named = {
        step.name: [text((draft.key, draft.value)) for draft in step.records] for step in plan.steps
    }
    assert len(named) == len(plan.steps)
    assert plan.commit_point in named if named else plan.commit_point is None
    return named


def text(record: Pair) -> str:
    """A record in the form of `steps`; a tombstone has no text after its key."""
    key, value = map(raw, record)
    return f"{(key or b'').decode()} {(value or b'').decode()}"


def refused(
    log: Iterable[Pair | Entry], command: AnyCommand, release: str = "kip", **settings: Any
) -> Rejected:
    """Refusal decided after these entries; any other decision fails the test."""
    decision = decided(log, command, release, **settings)
    assert isinstance(decision, Rejected), decision
    return decision
