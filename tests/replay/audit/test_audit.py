"""Laws of all audits: one pass, bounded memory, no secrets, any bytes."""

import tracemalloc
from collections.abc import Iterator
from time import process_time

import msgspec
import pytest
from hypothesis import given, settings

from controlplane.core.entry import Entry
from controlplane.core.order import in_order
from controlplane.core.releases.profiles import Profile
from replay.audit import ClusterLog, audit
from replay.audit.context import EVIDENCE_KEPT, lasting
from replay.audit.kinds import KINDS
from replay.audit.thresholds import BadThreshold, Thresholds, all_thresholds, thresholds
from replay.findings import Severity
from tests.conftest import FEWER_EXAMPLES, examples
from tests.laws.entries import logs, profiles
from tests.replay.audit.planted_log import MINUTE, PAUSED, PlantedLog

SECRET = "horse-battery-staple"


@given(logs(), profiles)
@settings(max_examples=FEWER_EXAMPLES)
def test_any_bytes_can_be_audited(entries: list[Entry], profile: Profile) -> None:
    """Malformed records never stop an audit.

    The evidence of each finding exists in the log; each sentence is one line.
    """
    ordered = in_order(entries)
    places = {entry.position for entry in ordered}
    for finding in audit([ClusterLog("lab", ordered, profile)]):
        assert finding.kind in KINDS
        assert finding.evidence
        assert places >= set(finding.evidence)
        assert finding.sentence.splitlines() == [finding.sentence]


@given(logs(), profiles)
@settings(max_examples=examples(25, proved=2_000))
def test_one_pass_suffices(entries: list[Entry], profile: Profile) -> None:
    """An audit reads its entries once: an iterator suffices."""
    ordered = in_order(entries)
    listed = audit([ClusterLog("lab", ordered, profile)])
    assert audit(iter([ClusterLog("lab", iter(ordered), profile)])) == listed


@pytest.mark.slow
def test_memory_grows_with_keys_and_not_with_records() -> None:
    """Five times as many records with the same keys need less than 1.5 times the memory."""
    few, many = _peak(500), _peak(2_500)
    assert many < 1.5 * few


def _peak(records: int) -> int:
    profile = Profile.of("3.9.1")
    tracemalloc.start()
    try:
        audit([ClusterLog("lab", _churn(records), profile)])
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _churn(records: int) -> Iterator[Entry]:
    """Log of connectors that move, fail and are restarted: `records` offsets, as many statuses."""
    names = [f"c{number}" for number in range(50)]
    for number, name in enumerate(names):
        config = msgspec.json.encode({"properties": {"name": name}})
        yield Entry("connect-configs", 0, number, number, b"connector-" + name.encode(), config)
    states = ("RUNNING", "FAILED", "RUNNING", "UNASSIGNED")
    for number in range(records):
        name, at_ms = names[number % 50], 1_000 * (number + 1)
        key = msgspec.json.encode([name, {"file": number % 4}])
        value = msgspec.json.encode({"position": number % 1_000})
        yield Entry("connect-offsets", 0, number, at_ms, key, value)
        status = {
            "state": states[number // 50 % 4],
            "worker_id": f"w{number % 3}",
            "generation": number // 500,
            "trace": None,
        }
        place = "connect-status", 0, number
        yield Entry(*place, at_ms, f"status-task-{name}-0".encode(), msgspec.json.encode(status))


def test_no_secret_is_shown() -> None:
    """An audit names each kind of place that has a secret, and never shows the secret."""
    log = PlantedLog().config("a", db_password="old").config("a", db_password=SECRET)
    log.config("a", db_password=SECRET, url=f"jdbc:mysql://ada:{SECRET}@db/shop")
    log.tasks("a", 1)
    log.put("connect-configs", "task-a-0", {"properties": {"api.key": SECRET}})
    trace = f"refused: password={SECRET}\n\tat lab.Source.start"
    for _ in range(3):
        log.wait(MINUTE).status("task-a-0", "RUNNING").status("task-a-0", "FAILED", trace=trace)
    key = f'["a",{{"token":"{SECRET}"}}]'
    log.put("connect-offsets", key, {"position": 9, "password": SECRET})
    log.put("connect-offsets", key, {"position": 4, "password": SECRET})
    log.accepted("17", command="put-config", connector="a", config={"db.password": SECRET})
    log.by(f"password={SECRET}", "18").target("a", PAUSED)
    findings = audit([log.cluster("lab")])
    report = msgspec.json.encode(findings).decode()
    assert SECRET not in report
    (clear,) = (finding for finding in findings if finding.kind == "secret-in-clear")
    for where in (
        "the setting db.password",
        "the setting url",
        "the setting api.key of a task",
        "the trace of a failure",
        "a source partition",
        "a source offset",
    ):
        assert where in clear.sentence
    kinds = {finding.kind for finding in findings}
    assert kinds >= {"config-changed", "status-flapping", "offsets-regressed", "command-unfinished"}


def test_findings_are_ordered_by_severity() -> None:
    """Findings are ordered by severity: DANGER, WARNING, INFO. The evidence is bounded."""
    log = PlantedLog().config("a", password="x")
    for number in range(2 * EVIDENCE_KEPT):
        log.offset("a", {"n": number}).offset("a", {"n": number + 1}, partition=1)
    findings = audit([log.cluster("lab")])
    ranks = [list(Severity).index(finding.severity) for finding in findings]
    assert ranks == sorted(ranks, reverse=True)
    assert ranks[0] == list(Severity).index(Severity.DANGER)
    assert max(len(finding.evidence) for finding in findings) <= EVIDENCE_KEPT


# --- thresholds --------------------------------------------------------------------------------


def test_thresholds_have_names_units_and_reasons() -> None:
    """Each threshold can be set by name, and has a reason."""
    assert len(all_thresholds()) == len(Thresholds.__struct_fields__)
    for threshold in all_thresholds():
        assert threshold.unit == ("ms" if threshold.name.endswith("-ms") else "")
        assert threshold.reason.endswith(".")
        assert thresholds({threshold.name: str(threshold.usual)}) == Thresholds()


def test_a_given_threshold_applies() -> None:
    """Three restarts are a storm only with a lower threshold."""
    log = PlantedLog().config("a").restart("a").restart("a").restart("a")
    cluster = log.cluster("lab")
    assert not [finding for finding in audit([cluster]) if finding.kind == "restart-storm"]
    findings = audit([cluster], thresholds({"storm-restarts": "3"}))
    assert [finding.connector for finding in findings if finding.kind == "restart-storm"] == ["a"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("storms", "3", "storms is no threshold: choose from episode-ms,"),
        ("stall-ms", "an hour", "stall-ms cannot be 'an hour': give a whole number from 1 on"),
        ("flap-failures", "1", "give a whole number from 2 on"),
        ("stall-ms", "9" * 40, "give a whole number"),
    ],
)
def test_bad_thresholds_are_refused(name: str, text: str, words: str) -> None:
    """The error lists the valid names or values in one sentence."""
    with pytest.raises(BadThreshold, match=words):
        thresholds({name: text})


@pytest.mark.parametrize(
    ("time_ms", "words"),
    [
        (0, "0 ms"),
        (1_000, "1 second"),
        (90_000, "90 seconds"),
        (3_600_000, "1 hour"),
        (86_400_000, "1 day"),
        (170_000, "2 minutes 50 seconds"),
        (170_001, "2 minutes 51 seconds"),
        (179_001, "3 minutes"),
        (2_001, "3 seconds"),
        (121_000, "2 minutes 1 second"),
        (200_000_000, "2 days 8 hours"),
        (180_000_000, "2 days 2 hours"),
    ],
)
def test_a_span_is_never_rounded_down(time_ms: int, words: str) -> None:
    """A span is shown in at most two units, and never rounded down."""
    assert lasting(time_ms) == words


def test_a_sentence_names_few_clusters() -> None:
    """A sentence names some clusters and counts the others."""
    logs = [PlantedLog().session_key("b25lLWtleS1mb3ItYWxs") for _ in range(12)]
    (finding,) = audit([log.cluster(f"c{number:02}") for number, log in enumerate(logs)])
    assert finding.sentence.startswith(
        "the clusters c00, c01, c02, c03, c04, c05, c06, c07 and 4 more"
    )
    assert finding.connector is None


def test_an_unclosed_reference_takes_linear_time() -> None:
    """Anybody may write a config: a value of 30 KB takes milliseconds, not minutes."""
    value = "${" + 30_000 * ":"
    begun_s = process_time()
    findings = audit([PlantedLog().config("a", secret=value).cluster("lab")])
    assert "secret-in-clear" in {finding.kind for finding in findings}
    assert process_time() - begun_s < 5
