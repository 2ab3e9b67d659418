"""Findings of audits, comparisons and rehearsals, as one value type."""

from enum import Enum
from typing import NamedTuple

import msgspec

from controlplane.core.entry import Position
from controlplane.core.text.safe_text import safe

CLUSTER, NAMELESS = "(cluster)", '""'
"""Shown in place of a connector's name for the whole cluster, and for an empty name."""


def called(connector: str | None) -> str:
    """Format a connector's name for people; None is the whole cluster."""
    return CLUSTER if connector is None else safe(connector) or NAMELESS


def by_name(connector: str | None) -> tuple[bool, str]:
    """Sort key of connectors: the cluster first, then by name."""
    return connector is not None, connector or ""


def regeneration(*, runs: bool) -> str:
    """Clause about the worker that generates lost tasks of a connector again."""
    worker = "the worker that runs the connector" if runs else "no worker"
    return f"{worker} generates them again{'' if runs else ' until the connector runs'}"


class Severity(Enum):
    """Severity of a finding, the mildest first."""

    INFO = "info"
    """Good to know; no action is needed."""
    WARNING = "warning"
    """Something fails to happen until an operator acts."""
    DANGER = "danger"
    """Work is lost or done twice, a worker does not start, or members disagree permanently."""


class FindingText(NamedTuple):
    """Problem and remedy of a finding."""

    sentence: str
    advice: str = ""


class Finding(msgspec.Struct, frozen=True):
    """Finding about one cluster or several, with the records that prove it."""

    kind: str
    """Name of the kind of finding, such as `tasks-lost`."""
    severity: Severity
    cluster: str
    connector: str | None
    """None for a finding about the whole cluster. A connector may have an empty name."""
    evidence: tuple[Position, ...]
    sentence: str
    """The problem in words, without secrets."""
    advice: str
    """The remedy; empty if none is needed."""
    clusters: tuple[str, ...] = ()
    """Cluster of each evidence record, if the evidence spans several clusters."""

    @property
    def places(self) -> list[tuple[str, Position]]:
        """Pairs of cluster and evidence record."""
        clusters = self.clusters or (self.cluster,) * len(self.evidence)
        return list(zip(clusters, self.evidence, strict=True))
