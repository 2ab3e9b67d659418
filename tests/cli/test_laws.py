"""Laws: every view prints any log without a traceback."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.core.entry import Entry
from controlplane.core.releases.profiles import RELEASES
from tests.cli.command_calls import call, refusal
from tests.conftest import examples
from tests.laws.entries import NAMES, logs

VIEWS = (
    [],
    ["--rest"],
    ["--hazards"],
    ["--compare", "0.10.2,2.8,3.4.0,3.9,kip"],
    *(["--connector", name] for name in NAMES if name),
    *(["--history", name] for name in NAMES if name),
)
PLACES = st.sampled_from(VIEWS)
RELEASE = st.sampled_from(["kip", *RELEASES])
FORM = st.sampled_from([[], ["-o", "json"], ["--exactly-once"], ["--exactly-once", "-o", "json"]])
LOGS = examples(30, proved=500)
"""Few examples, because a command takes as long as hundreds of folds."""


def line(entry: Entry) -> str:
    """Entry as a line of a history."""
    shown = {
        "topic": entry.topic,
        "partition": entry.partition,
        "offset": entry.offset,
        "timestamp": entry.timestamp,
        "aborted": entry.aborted,
    }
    for name, raw in (("key", entry.key), ("value", entry.value)):
        if raw is not None:
            shown[f"{name}_base64"] = base64.b64encode(raw).decode()
    return json.dumps(shown)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Path of the log under test."""
    return tmp_path_factory.mktemp("laws") / "log.jsonl"


@settings(max_examples=LOGS, suppress_health_check=[HealthCheck.too_slow])
@given(logs(), PLACES, RELEASE, FORM)
def test_no_log_crashes_a_view(
    file: Path, log: list[Entry], view: Sequence[str], release: str, form: Sequence[str]
) -> None:
    """A view prints an answer, or one sentence about an unknown connector; never a traceback."""
    entries = [*log, Entry("connect-configs", 0, 1 << 30, 1, b"connector-z", b"{}")]
    header = json.dumps({"history": "law", "records": len(entries)})
    file.write_text("\n".join([header, *map(line, entries)]) + "\n", "utf-8")
    options = [*view, *form]
    options += [] if "--compare" in view else ["--profile", release]
    result = call("inspect", file, *options)
    # The connector may be unknown, or the release too old for the option.
    may_refuse = {"--connector", "--history", "--exactly-once"} & {*view, *form}
    assert result.code == 0 or (may_refuse and refusal(result))
    if result.code == 0 and ("json" in form or "--rest" in view):
        assert isinstance(result.json, dict)
