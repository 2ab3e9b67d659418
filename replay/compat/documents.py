"""An assessment for machines: JSON, and JUnit's XML for CI. Without secrets."""

from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree import ElementTree as ET

import msgspec

from controlplane.core.hazards import Hazard
from controlplane.core.redact import redacted_text, redacted_value
from controlplane.core.safe_text import safe
from controlplane.core.shown import bounded, item, shown
from controlplane.core.shown import change as change_text
from controlplane.core.shown_records import place
from controlplane.core.state import Topics
from replay.compat.assessing import Assessed, Assessment, Divergence, Seen, Verdict
from replay.compat.steps import Step
from replay.compat.writing import Written
from replay.findings import called


def worst(assessments: Iterable[Assessment]) -> Verdict:
    """The verdict on several changes of release in a row."""
    return max((one.verdict for one in assessments), default=Verdict.COMPATIBLE)


def document(assessments: Sequence[Assessment], topics: Topics) -> dict[str, Any]:
    """One or several changes of release in a row as JSON."""
    return {
        "verdict": worst(assessments).words,
        "rolls": [_roll(one, topics) for one in assessments],
    }


def _roll(assessment: Assessment, topics: Topics) -> dict[str, Any]:
    roll = assessment.roll
    return {
        "cluster": assessment.cluster,
        "from": roll.start.release,
        "to": roll.goal.release,
        "mode": roll.mode.value,
        "verdict": assessment.verdict.words,
        "connectors": [_assessed(one, topics) for one in assessment.assessed],
        "remarks": list(assessment.remarks),
        "plan": [_step(one) for one in assessment.plan],
    }


def _assessed(one: Assessed, topics: Topics) -> dict[str, Any]:
    return {
        "connector": one.connector,
        "verdict": one.verdict.words,
        "views": [msgspec.to_builtins(view, str_keys=True) for view in one.views],
        "divergences": [_divergence(found, topics) for found in one.divergences],
        "situations": [_seen(found, topics) for found in one.situations],
        "hazards": [_hazard(found, topics) for found in one.hazards],
        "writes": [_written(found) for found in one.writes],
    }


def _divergence(found: Divergence, topics: Topics) -> dict[str, Any]:
    change = found.change
    before, after = (
        bounded(shown(change.aspect, change.item, value)) for value in (change.before, change.after)
    )
    return {
        "fact": change.aspect.value,
        "item": item(change.aspect, change.item),
        "from": before,
        "to": after,
        "record": None if change.cause is None else place(change.cause, topics),
        "explained_by": found.explained,
        "severity": found.severity.value,
    }


def _seen(found: Seen, topics: Topics) -> dict[str, Any]:
    situation, sighting = found.situation, found.sighting
    return {
        "situation": situation.number,
        "name": situation.name,
        "ground": situation.ground,
        "severity": sighting.severity.value,
        "sentence": sighting.sentence,
        "evidence": [place(one, topics) for one in sighting.evidence],
        "steps": [_step(one) for one in sighting.steps],
    }


def _hazard(found: Hazard, topics: Topics) -> dict[str, Any]:
    return {
        "danger": found.danger.value,
        "reason": redacted_text(found.reason),
        "record": place(found.position, topics),
    }


def _written(found: Written) -> dict[str, Any]:
    return {
        "request": found.request,
        "records": [record_text(draft.key, draft.value) for draft in found.records],
        "views": [msgspec.to_builtins(one, str_keys=True) for one in (found.older, found.newer)],
    }


def record_text(key: bytes, value: bytes | None) -> str:
    """A record that is to be written, on one line."""
    text = "∅" if value is None else str(redacted_value("", value.decode("utf-8", "replace")))
    return f"{key.decode('utf-8', 'replace')} {text}"


def _step(step: Step) -> dict[str, str]:
    return {"when": step.when.value, "command": step.command, "why": step.why}


# --- JUnit ----------------------------------------------------------------------------------------


def junit(assessments: Sequence[Assessment], topics: Topics) -> str:
    """The same as JUnit's XML: a suite for each change of release, a case for each connector."""
    root = ET.Element("testsuites", name="replay compat")
    for one in assessments:
        _suite(root, one, topics)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(root: ET.Element, assessment: Assessment, topics: Topics) -> None:
    failed = [one for one in assessment.assessed if one.verdict is not Verdict.COMPATIBLE]
    suite = ET.SubElement(
        root,
        "testsuite",
        name=safe(f"{assessment.cluster} {assessment.roll}".strip()),
        tests=str(len(assessment.assessed)),
        failures=str(len(failed)),
        errors="0",
    )
    for one in assessment.assessed:
        name = called(one.connector)
        case = ET.SubElement(suite, "testcase", classname=safe(assessment.cluster), name=name)
        if one in failed:
            words = one.verdict.words
            failure = ET.SubElement(case, "failure", type=words, message=f"{name}: {words}")
            failure.text = "\n".join(map(safe, reasons(one, topics)))


def reasons(one: Assessed, topics: Topics) -> list[str]:
    """Why a connector's verdict is what it is, a line each."""
    lines = []
    for seen in one.situations:
        places = ", ".join(place(position, topics) for position in seen.sighting.evidence)
        text = f"{seen.situation.name} ({seen.situation.ground}): {seen.sighting.sentence}"
        lines.append(f"{seen.sighting.severity.value}: {text} [{places}]")
    for found in one.divergences:
        change = found.change
        where = "" if change.cause is None else f" [{place(change.cause, topics)}]"
        fact = f"{change.aspect.value} {item(change.aspect, change.item)}".strip()
        words = change_text(change.aspect, change.item, change.before, change.after)
        lines.append(f"{found.severity.value}: {fact}: {words}{where}")
    for hazard in one.hazards:
        where = place(hazard.position, topics)
        lines.append(f"{hazard.danger.value}: {redacted_text(hazard.reason)} [{where}]")
    return lines
