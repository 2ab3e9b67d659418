"""Assessments for machines: JSON, and JUnit's XML for CI."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree as ET

import msgspec

from controlplane.core.safe_text import safe
from replay.compat.assessing import Verdict
from replay.compat.told import VERDICTS, ToldRoll
from replay.findings import CLUSTER, called


def worst(rolls: Iterable[ToldRoll]) -> Verdict:
    """The verdict on several changes of release: in a row, or of several clusters."""
    return max((VERDICTS[one.verdict] for one in rolls), default=Verdict.COMPATIBLE)


def document(rolls: Sequence[ToldRoll]) -> dict[str, Any]:
    """Changes of release as JSON."""
    shown = msgspec.to_builtins(rolls, str_keys=True)
    return {"verdict": worst(rolls).words, "rolls": shown}


def junit(rolls: Sequence[ToldRoll], failed: Mapping[str, str] = MappingProxyType({})) -> str:
    """The same as JUnit's XML: a suite for each change of release, a case for each connector.

    A cluster that could not be read is an error; `failed` says why.
    """
    root = ET.Element("testsuites", name="replay compat")
    for one in rolls:
        _suite(root, one)
    for cluster, sentence in failed.items():
        _unread(root, safe(cluster), safe(sentence))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _unread(root: ET.Element, cluster: str, sentence: str) -> None:
    numbers = {"tests": "1", "failures": "0", "errors": "1"}
    suite = ET.SubElement(root, "testsuite", name=cluster, attrib=numbers)
    case = ET.SubElement(suite, "testcase", classname=cluster, name=CLUSTER)
    ET.SubElement(case, "error", type="cannot be read", message=sentence)


def _suite(root: ET.Element, roll: ToldRoll) -> None:
    compatible = Verdict.COMPATIBLE.words
    failed = [one for one in roll.connectors if one.verdict != compatible]
    suite = ET.SubElement(
        root,
        "testsuite",
        name=safe(f"{roll.cluster} {roll}".strip()),
        tests=str(len(roll.connectors)),
        failures=str(len(failed)),
        errors="0",
    )
    for one in roll.connectors:
        name = called(one.connector)
        case = ET.SubElement(suite, "testcase", classname=safe(roll.cluster), name=name)
        if one.verdict != compatible:
            message = f"{name}: {one.verdict}"
            failure = ET.SubElement(case, "failure", type=one.verdict, message=message)
            failure.text = "\n".join(map(safe, one.reasons))
