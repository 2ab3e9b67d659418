"""Limits of a page: it opens on a phone, however large the fleet is.

Omitted items are counted, and the page names the command that lists them. One exception: the count
of undrawn connectors names no command.
"""

import msgspec

DRAWN, DRAWN_LEAST = 150, 3
"""Connectors with a timeline, in all clusters together, and the least number per cluster."""

LISTED, LISTED_LEAST = 2_000, 20
"""Connectors with a row of their own."""

FINDINGS, FINDINGS_LEAST = 1_000, 12
"""Listed findings, gaps and doubts, and steps of a plan."""

EVIDENCE, EVIDENCE_LEAST = 10_000, 100
"""Records shown as evidence; others are named by position."""

SPANS = 240
"""Steps of a lane: several changes within one step are drawn as one."""

MARKS = 60
"""Steps for marks: the marks of one step are merged and counted."""

POINTS = 160
"""Steps for offsets: the last offset of each step is drawn. Offsets that went back are
drawn as well, up to the same number."""

PARTITIONS = 6
"""Drawn source partitions of a connector."""

LATEST = 8
"""Records of each kind listed beneath a picture."""

REASONS = 6
"""Listed reasons of a verdict."""


class PageLimits(msgspec.Struct, frozen=True):
    """Limits for one cluster: its share of the page."""

    drawn: int
    listed: int
    findings: int
    evidence: int

    @classmethod
    def shared_by(cls, clusters: int) -> "PageLimits":
        """Divide the page's limits by the number of clusters."""
        return cls(
            max(DRAWN_LEAST, DRAWN // clusters),
            max(LISTED_LEAST, LISTED // clusters),
            max(FINDINGS_LEAST, FINDINGS // clusters),
            max(EVIDENCE_LEAST, EVIDENCE // clusters),
        )
