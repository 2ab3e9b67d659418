"""How much a page tells at most, so that it opens on a phone however large the fleet is.

What is left out is counted, and the page names the command that tells all of it.
"""

import msgspec

DRAWN, DRAWN_LEAST = 150, 3
"""Connectors whose time is drawn, in all clusters together; of each cluster at least so many."""

LISTED, LISTED_LEAST = 2_000, 20
"""Connectors with a row of their own."""

FINDINGS, FINDINGS_LEAST = 1_000, 12
"""Findings that are told."""

EVIDENCE, EVIDENCE_LEAST = 10_000, 100
"""Records that are shown as evidence; what is behind the others is named by its position."""

SPANS = 240
"""Into so many steps a lane is divided: what changes more than once within one is drawn as one."""

MARKS = 60
"""The same for marks: those of one step become one, with their number."""

POINTS = 160
"""The same for offsets: of each step the last one is drawn, and each that went back."""

PARTITIONS = 6
"""Source partitions of a connector that are drawn."""

LATEST = 8
"""Of all that a number counts, the records that are told beside a picture."""

REASONS = 6
"""Reasons for one verdict that are told."""


class Limits(msgspec.Struct, frozen=True):
    """What one cluster may take up."""

    drawn: int
    listed: int
    findings: int
    evidence: int

    @classmethod
    def shared_by(cls, clusters: int) -> "Limits":
        """Of a page about so many clusters, the share of each."""
        return cls(
            max(DRAWN_LEAST, DRAWN // clusters),
            max(LISTED_LEAST, LISTED // clusters),
            max(FINDINGS_LEAST, FINDINGS // clusters),
            max(EVIDENCE_LEAST, EVIDENCE // clusters),
        )
