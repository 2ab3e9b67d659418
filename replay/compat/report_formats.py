"""Machine formats of assessments: JSON, and JUnit XML for CI."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree as ET

import msgspec

from controlplane.core.text.safe_text import safe
from replay.compat.assessment import ReleaseVerdict
from replay.compat.assessment_report import VERDICTS, ReportedAssessment
from replay.findings import CLUSTER, called


def worst(rolls: Iterable[ReportedAssessment]) -> ReleaseVerdict:
    """Worst verdict of several assessments; compatible without any."""
    return max((VERDICTS[roll.verdict] for roll in rolls), default=ReleaseVerdict.COMPATIBLE)


def document(rolls: Sequence[ReportedAssessment]) -> dict[str, Any]:
    """Assessments as a JSON document: the worst verdict, and each assessment."""
    shown = msgspec.to_builtins(rolls, str_keys=True)
    return {"verdict": worst(rolls).words, "rolls": shown}


def junit(
    rolls: Sequence[ReportedAssessment], failed: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Assessments as JUnit XML: a suite per release change, a case per connector.

    `failed` maps unreadable clusters to reasons; each is an error.
    """
    root = ET.Element("testsuites", name="replay compat")
    for roll in rolls:
        _suite(root, roll)
    for cluster, sentence in failed.items():
        _unread(root, safe(cluster), safe(sentence))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _unread(root: ET.Element, cluster: str, sentence: str) -> None:
    numbers = {"tests": "1", "failures": "0", "errors": "1"}
    suite = ET.SubElement(root, "testsuite", name=cluster, attrib=numbers)
    case = ET.SubElement(suite, "testcase", classname=cluster, name=CLUSTER)
    ET.SubElement(case, "error", type="cannot be read", message=sentence)


def _suite(root: ET.Element, roll: ReportedAssessment) -> None:
    compatible = ReleaseVerdict.COMPATIBLE.words
    failed = [connector for connector in roll.connectors if connector.verdict != compatible]
    suite = ET.SubElement(
        root,
        "testsuite",
        name=safe(f"{roll.cluster} {roll}".strip()),
        tests=str(len(roll.connectors)),
        failures=str(len(failed)),
        errors="0",
    )
    for connector in roll.connectors:
        name = called(connector.connector)
        case = ET.SubElement(suite, "testcase", classname=safe(roll.cluster), name=name)
        if connector.verdict != compatible:
            message = f"{name}: {connector.verdict}"
            failure = ET.SubElement(case, "failure", type=connector.verdict, message=message)
            failure.text = "\n".join(map(safe, connector.reasons))
