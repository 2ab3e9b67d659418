"""Output of findings in several clusters, for `audit` and `lint`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from controlplane.core.state import Topics
from controlplane.core.text.record_text import place
from controlplane.core.text.redaction import redacted_text
from controlplane.core.text.safe_text import count
from controlplane.terminal.exit_codes import FOUND
from controlplane.terminal.output import say
from controlplane.terminal.tables import table
from replay.findings import Finding, Severity


class FleetFindings(NamedTuple):
    """Findings, and the clusters that were examined."""

    findings: Sequence[Finding]
    topics: Mapping[str, Topics]
    """Topics of every examined cluster."""

    @property
    def code(self) -> int:
        """Exit code: `FOUND` if a finding is worse than informational, else 0."""
        return (
            FOUND if any(finding.severity is not Severity.INFO for finding in self.findings) else 0
        )

    @property
    def document(self) -> dict[str, Any]:
        """The findings as a JSON document."""
        return {
            "clusters": list(self.topics),
            "findings": [self._document(finding) for finding in self.findings],
        }

    def places(self, finding: Finding) -> list[str]:
        """Evidence of a finding as text, with clusters if there are several."""
        shown = self._evidence_text(finding)
        return [
            f"{cluster} {evidence}"
            for cluster, evidence in zip(finding.clusters, shown, strict=False)
        ] or shown

    def _document(self, finding: Finding) -> dict[str, Any]:
        fields: dict[str, Any] = msgspec.to_builtins(finding)
        shown = {"sentence": redacted_text(finding.sentence), "evidence": self.places(finding)}
        return fields | shown

    def _evidence_text(self, finding: Finding) -> list[str]:
        return [place(position, self.topics[cluster]) for cluster, position in finding.places]


def print_fleet(fleet: FleetFindings, what: str = "") -> None:
    """Print the number of findings: per cluster if there are several, and in total."""
    numbers = Counter((finding.cluster, finding.severity) for finding in fleet.findings)
    if len(fleet.topics) > 1:
        columns = tuple(reversed(Severity))
        table(
            ("CLUSTER", *(column.value.upper() for column in columns)),
            [(name, *(str(numbers[name, column]) for column in columns)) for name in fleet.topics],
        )
        say()
    clusters = ", ".join(fleet.topics) if len(fleet.topics) <= NAMED else ""
    number = len(fleet.findings)
    number_text = count(number, "finding") if number else "no findings"
    say(f"{clusters or count(len(fleet.topics), 'cluster')}{what}: {number_text}")


NAMED = 5
"""Greatest number of clusters named in a line; more are counted."""
