"""Situations of the whole cluster: keys, transactions, converters, and who may join at all."""

from collections.abc import Iterator

from controlplane.core.diff import diff
from controlplane.core.evolve import fold
from replay.compat.evidence import Evidence, Told
from replay.compat.sightings import Sighting
from replay.compat.steps import Step, When, verb
from replay.findings import Severity

ENVELOPE = {"schema", "payload"}


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


def aborted_configs(evidence: Evidence) -> Iterator[Sighting]:
    """15: aborted records of the config topic: who runs without exactly-once support obeys them."""
    log = [one for one in evidence.entries if one.topic == evidence.topics.config]
    aborted = [one for one in log if one.aborted]
    if not aborted:
        return
    profile = evidence.roll.newer
    blind = fold(log, profile, topics=evidence.topics, exactly_once=True)
    obeying = fold(log, profile, topics=evidence.topics)
    changes = diff(blind, obeying)
    for name in sorted({one.connector for one in changes}):
        causes = {one.cause for one in changes if one.connector == name and one.cause is not None}
        yield Sighting(
            connector=name,
            evidence=tuple(sorted(causes)),
            severity=Severity.DANGER,
            sentence="differs by records of an aborted transaction: members with exactly-once "
            "support do not see them, all others obey them",
            steps=(
                Step(
                    When.BEFORE,
                    verb("get connectors", name, "-o", "yaml") + " > agreed.yaml && "
                    "controlplane apply -f agreed.yaml",
                    "asked of a member with the support: writes what was committed, for all",
                ),
            ),
        )
    if blind.config.offset != obeying.config.offset:
        yield Sighting(
            evidence=(aborted[-1].position,),
            severity=Severity.DANGER if evidence.roll.mixed else Severity.WARNING,
            sentence="the config topic ends in an aborted transaction: members with and without "
            "exactly-once support never agree how far it reaches, and rebalance without end",
            steps=(_settling(evidence),),
        )


def _settling(evidence: Evidence) -> Step:
    """Any record that all members read brings their offsets together."""
    names = evidence.connectors
    command = verb("pause", names[0]) if names else "# create a connector"
    return Step(When.BEFORE, command, "any record that is written behind it lets members agree")


def envelopes(evidence: Evidence) -> Iterator[Sighting]:
    """16: records written with schemas, which releases without internal converters cannot read."""
    told = [one for one in evidence.config if _is_envelope(one)]
    if told:
        yield Sighting(
            evidence=tuple(one.position for one in told),
            severity=Severity.DANGER,
            sentence=f"{len(told)} config records are wrapped in a schema: "
            f"{evidence.roll.newer.release} has no internal converters any more and reads none of "
            "them, so their connectors are gone",
            steps=(
                Step(When.BEFORE, "controlplane get connectors -o yaml > all.yaml", "keeps them"),
                Step(
                    When.BEFORE,
                    "# internal.value.converter.schemas.enable=false on every worker, and a new "
                    "config.storage.topic",
                    "writes records that every release reads",
                ),
                Step(When.BEFORE, "controlplane apply -f all.yaml", "brings them back"),
            ),
        )


def _is_envelope(told: Told) -> bool:
    return isinstance(told.content, dict) and set(told.content) == ENVELOPE


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
