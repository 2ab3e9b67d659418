"""Rows of findings (`schemas.FINDINGS`)."""

from controlplane.core.text.safe_text import utf8_text
from replay.findings import Finding
from replay.tables.cells import RowDocument


def finding_row(finding: Finding) -> RowDocument:
    """Row of a finding; half surrogate pairs in its texts become escapes."""
    connector = finding.connector
    return {
        "cluster": finding.cluster,
        "connector": None if connector is None else utf8_text(connector),
        "kind": finding.kind,
        "severity": finding.severity.value,
        "sentence": utf8_text(finding.sentence),
        "advice": utf8_text(finding.advice),
        "evidence": [
            {"cluster": cluster, **position._asdict()} for cluster, position in finding.places
        ],
    }
