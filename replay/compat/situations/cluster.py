"""Situations of the whole cluster: keys, converters, and who may join at all."""

from collections.abc import Iterator
from typing import Any

from controlplane.core.state import Topics
from replay.compat.evidence import Evidence
from replay.compat.sightings import Sighting
from replay.compat.steps import UNWRAPPED, Step, When, compacted_topic, copied_topic
from replay.findings import Severity


def session_key(evidence: Evidence) -> Iterator[Sighting]:
    """10: the older release signs no requests among workers, and accepts none that are signed."""
    told = evidence.session_key
    if told is None:
        return
    older, mixed = evidence.roll.older.release, evidence.roll.mixed
    setting = "# connect.protocol=compatible on every newer worker while older ones live"
    yield Sighting(
        evidence=(told.position,),
        severity=Severity.WARNING if mixed else Severity.INFO,
        sentence=f"the cluster signs requests among its workers, {older} does not: "
        + ("the whole group falls back to unsigned ones" if mixed else "its key is left unused"),
        steps=(Step(When.DURING, setting, "nobody then waits for signatures"),) if mixed else (),
    )


def envelopes(evidence: Evidence) -> Iterator[Sighting]:
    """16: records written with schemas, which releases without internal converters cannot read."""
    told = [one for one in evidence.config if is_envelope(one.content)]
    if told:
        yield Sighting(
            evidence=tuple(one.position for one in told),
            severity=Severity.DANGER,
            sentence=f"{len(told)} config records are wrapped in a schema: "
            f"{evidence.roll.newer.release} has no internal converters any more and reads none of "
            "them, so their connectors are gone",
            steps=tuple(_unwrapping(evidence.topics)),
        )


def is_envelope(content: Any) -> bool:
    """Whether a value is of Connect's JSON with schemas."""
    return isinstance(content, dict) and set(content) == {"schema", "payload"}


PLAIN = "-plain"
"""What is put behind the name of a topic for that of its copy without envelopes."""


def _unwrapping(topics: Topics) -> Iterator[Step]:
    """All that there is goes to new topics: target states, tasks and offsets, too.

    Created anew, connectors would all run, and sources begin at the beginning. In the same topic
    the old records would stay, of which each commit costs workers the rest of its batch.
    """
    halt = "# stop all workers: one after the other they cannot be changed here"
    yield Step(When.BEFORE, halt, "what is written behind the copy would be lost")
    settings = {
        "config.storage.topic": (topics.config, 1),
        "offset.storage.topic": (topics.offsets, 25),
        "status.storage.topic": (topics.status, 5),
    }
    for topic, partitions in settings.values():
        plain = f"{topic}{PLAIN}"
        made = compacted_topic(plain, partitions)
        yield Step(When.BEFORE, made, "with as many replicas as the brokers give by themselves")
        copied = copied_topic(topic, plain, UNWRAPPED)
        yield Step(When.BEFORE, copied, "the same records as every release reads them")
    named = ", ".join(f"{one}={topic}{PLAIN}" for one, (topic, _) in settings.items())
    yield Step(When.DURING, f"# {named} on every worker", "they go on from the copies")


def refused_clients(evidence: Evidence) -> Iterator[Sighting]:
    """19: the log was written by workers of a time whose brokers may refuse the older release."""
    told = [one for one in evidence.status if one.text("version") is not None]
    if told:
        yield Sighting(
            evidence=(told[-1].position,),
            severity=Severity.WARNING,
            sentence=f"a worker of {evidence.roll.newer.release} or its like has written here; "
            f"if the brokers are of 4.0 or later, {evidence.roll.older.release} cannot connect",
            steps=(
                Step(
                    When.BEFORE,
                    'kafka-broker-api-versions.sh --bootstrap-server "$BROKERS"',
                    "where Produce begins at version 3, brokers refuse such clients",
                ),
            ),
        )
