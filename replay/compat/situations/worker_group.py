"""Situations of the whole group of workers: session key, converters, refused clients.

Each rule's docstring begins with the number of its situation in `SITUATIONS`.
"""

from collections.abc import Iterator
from typing import Any

from controlplane.core.state import Topics
from replay.compat.log_evidence import LogEvidence
from replay.compat.preparation import (
    UNWRAPPED,
    PreparationStep,
    StepTime,
    compacted_topic,
    copied_topic,
)
from replay.compat.situation import DetectedSituation
from replay.findings import Severity


def session_key(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """10: the older release does not sign internal requests and ignores signatures."""
    key_record = evidence.session_key
    if key_record is None:
        return
    older, mixed = evidence.roll.older.release, evidence.roll.mixed
    setting = "# connect.protocol=compatible on every newer worker while older ones run"
    yield DetectedSituation(
        evidence=(key_record.position,),
        severity=Severity.WARNING if mixed else Severity.INFO,
        sentence=f"the workers sign their requests to each other, {older} does not: "
        + (
            "the whole group falls back to unsigned ones" if mixed else "it ignores the session key"
        ),
        steps=(PreparationStep(StepTime.DURING, setting, "then no worker requires signatures"),)
        if mixed
        else (),
    )


def envelopes(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """16: records with schemas, unreadable for releases without internal converters."""
    wrapped = [record for record in evidence.config if is_envelope(record.content)]
    if wrapped:
        yield DetectedSituation(
            evidence=tuple(record.position for record in wrapped),
            severity=Severity.DANGER,
            sentence=f"{len(wrapped)} config records are wrapped in a schema: without internal "
            f"converters, {evidence.roll.newer.release} reads none, so their connectors are "
            "missing",
            steps=tuple(_unwrapping(evidence.topics)),
        )


def is_envelope(content: Any) -> bool:
    """True for a value in Connect's JSON with schemas."""
    return isinstance(content, dict) and set(content) == {"schema", "payload"}


PLAIN = "-plain"
"""Suffix of a topic's copy without envelopes."""


def _unwrapping(topics: Topics) -> Iterator[PreparationStep]:
    """Steps that copy all topics, with target states, tasks and offsets, and remove the envelopes.

    Two simpler ways fail. If connectors were created again, all of them would run, and sources
    would start over. If the records were written to the same topic, the old ones would stay. A
    worker that reads an old commit loses the rest of the batch.
    """
    halt = "# stop all workers: a rolling change is impossible here"
    yield PreparationStep(StepTime.BEFORE, halt, "records written after the copy would be lost")
    settings = {
        "config.storage.topic": (topics.config, 1),
        "offset.storage.topic": (topics.offsets, 25),
        "status.storage.topic": (topics.status, 5),
    }
    for topic, partitions in settings.values():
        plain = f"{topic}{PLAIN}"
        made = compacted_topic(plain, partitions)
        yield PreparationStep(
            StepTime.BEFORE, made, "the brokers' default number of replicas applies"
        )
        copied = copied_topic(topic, plain, UNWRAPPED)
        yield PreparationStep(
            StepTime.BEFORE, copied, "the same records in a form that every release reads"
        )
    named = ", ".join(f"{setting}={topic}{PLAIN}" for setting, (topic, _) in settings.items())
    yield PreparationStep(
        StepTime.DURING, f"# {named} on every worker", "the workers continue from the copies"
    )


def refused_clients(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """19: newer workers have written to the log; their brokers may refuse older clients."""
    records = [record for record in evidence.status if record.text("version") is not None]
    if records:
        yield DetectedSituation(
            evidence=(records[-1].position,),
            severity=Severity.WARNING,
            sentence=f"a worker of {evidence.roll.newer.release} or a similar release has written "
            f"to this log. If the brokers run 4.0 or later, {evidence.roll.older.release} cannot "
            "connect",
            steps=(
                PreparationStep(
                    StepTime.BEFORE,
                    'kafka-broker-api-versions.sh --bootstrap-server "$BROKERS"',
                    "if Produce begins at version 3, the brokers refuse such clients",
                ),
            ),
        )
