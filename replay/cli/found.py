"""Findings in several clusters, as `audit` and `lint` tell them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from controlplane.core.redact import redacted_text
from controlplane.core.safe_text import count
from controlplane.core.shown_records import place
from controlplane.core.state import Topics
from replay.cli.printing import say, table
from replay.findings import Finding, Severity

FOUND = 1
"""Exit code: something was found that has to be seen to."""


class Found(NamedTuple):
    """All that was found, and in which clusters was looked."""

    findings: Sequence[Finding]
    topics: Mapping[str, Topics]
    """Of each cluster, also of those in which nothing was found."""

    @property
    def code(self) -> int:
        """The exit code."""
        return FOUND if any(one.severity is not Severity.INFO for one in self.findings) else 0

    @property
    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "clusters": list(self.topics),
            "findings": [self._document(one) for one in self.findings],
        }

    def places(self, finding: Finding) -> list[str]:
        """The evidence of a finding as people write it, with the cluster if there are several."""
        shown = self._shown(finding)
        return [
            f"{cluster} {one}" for cluster, one in zip(finding.clusters, shown, strict=False)
        ] or shown

    def _document(self, finding: Finding) -> dict[str, Any]:
        told: dict[str, Any] = msgspec.to_builtins(finding)
        shown = {"sentence": redacted_text(finding.sentence), "evidence": self.places(finding)}
        return told | shown

    def _shown(self, finding: Finding) -> list[str]:
        return [place(position, self.topics[cluster]) for cluster, position in finding.places]


def print_fleet(found: Found, what: str = "") -> None:
    """How much was found: a row for each cluster, if there are several, and a line about all."""
    numbers = Counter((one.cluster, one.severity) for one in found.findings)
    if len(found.topics) > 1:
        columns = tuple(reversed(Severity))
        table(
            ("CLUSTER", *(one.value.upper() for one in columns)),
            [(name, *(str(numbers[name, one]) for one in columns)) for name in found.topics],
        )
        say()
    clusters = ", ".join(found.topics) if len(found.topics) <= NAMED else ""
    number = len(found.findings)
    told = count(number, "finding") if number else "no findings"
    say(f"{clusters or count(len(found.topics), 'cluster')}{what}: {told}")


NAMED = 5
"""Clusters that a line names; more are counted."""
