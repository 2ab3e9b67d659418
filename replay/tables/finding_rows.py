"""Rows of findings (`schemas.FINDINGS`)."""

from replay.findings import Finding
from replay.tables.cells import RowDocument, arrow_text


def finding_row(finding: Finding) -> RowDocument:
    """Row of a finding; half surrogate pairs in its texts become escapes."""
    connector = finding.connector
    return {
        "cluster": finding.cluster,
        "connector": None if connector is None else arrow_text(connector),
        "kind": finding.kind,
        "severity": finding.severity.value,
        "sentence": arrow_text(finding.sentence),
        "advice": arrow_text(finding.advice),
        "evidence": [
            {"cluster": cluster, **position._asdict()} for cluster, position in finding.places
        ],
    }
