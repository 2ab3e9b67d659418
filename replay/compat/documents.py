"""Assessments for machines: JSON, and JUnit's XML for CI."""

from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree import ElementTree as ET

import msgspec

from controlplane.core.safe_text import safe
from replay.compat.assessing import Verdict
from replay.compat.told import VERDICTS, ToldRoll
from replay.findings import called


def worst(rolls: Iterable[ToldRoll]) -> Verdict:
    """The verdict on several changes of release: in a row, or of several clusters."""
    return max((VERDICTS[one.verdict] for one in rolls), default=Verdict.COMPATIBLE)


def document(rolls: Sequence[ToldRoll]) -> dict[str, Any]:
    """Changes of release as JSON."""
    shown = msgspec.to_builtins(rolls, str_keys=True)
    return {"verdict": worst(rolls).words, "rolls": shown}


def junit(rolls: Sequence[ToldRoll]) -> str:
    """The same as JUnit's XML: a suite for each change of release, a case for each connector."""
    root = ET.Element("testsuites", name="replay compat")
    for one in rolls:
        _suite(root, one)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


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
