"""What an audit, a comparison or a rehearsal finds: one value for all of them."""

from enum import Enum

import msgspec

from controlplane.core.entry import Position
from controlplane.core.safe_text import safe

CLUSTER, NAMELESS = "(cluster)", '""'
"""What stands for the name of a connector where the cluster is meant, and where it is empty."""


def called(connector: str | None) -> str:
    """A connector for people; None is the cluster as a whole."""
    return CLUSTER if connector is None else safe(connector) or NAMELESS


def by_name(connector: str | None) -> tuple[bool, str]:
    """The order of connectors: the cluster first, then by name."""
    return connector is not None, connector or ""


class Severity(Enum):
    """How bad it is, the mildest first."""

    INFO = "info"
    """Worth knowing; nothing has to be done."""
    WARNING = "warning"
    """Something does not happen as it should, until somebody acts."""
    DANGER = "danger"
    """Work is lost or done twice, a worker does not start, or members disagree for good."""


class Finding(msgspec.Struct, frozen=True):
    """One thing found in the log of one cluster, with the records that show it."""

    kind: str
    """Its name, the same for all of its kind: `tasks-lost`."""
    severity: Severity
    cluster: str
    connector: str | None
    """None: it is about the whole cluster. A connector may have the empty name."""
    evidence: tuple[Position, ...]
    sentence: str
    """What is the matter, for people, without secrets."""
    advice: str
    """What to do about it; empty where nothing has to be done."""
    clusters: tuple[str, ...] = ()
    """Where the evidence lies in several clusters, in which each of it does."""

    @property
    def places(self) -> list[tuple[str, Position]]:
        """The evidence, each record with its cluster."""
        clusters = self.clusters or (self.cluster,) * len(self.evidence)
        return list(zip(clusters, self.evidence, strict=True))
