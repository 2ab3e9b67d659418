"""Report page of a fleet: plots, sentences and safety."""

import re
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.entry import Entry
from controlplane.core.moments import time_text
from controlplane.core.views.hazards import Danger
from replay.compat.assessment_report import ReportedConnector, ReportedHazard
from replay.findings import Severity
from replay.report import PageLimits, page
from replay.report.fleet_facts import judged
from replay.report.page_limits import MARKS, POINTS, SPANS
from tests.conftest import examples, sampled
from tests.laws.entries import logs
from tests.recorded_requests import HISTORIES, recorded_entries
from tests.replay.audit.planted_log import MINUTE, PAUSED, TOPICS, PlantedLog
from tests.replay.report.page_reader import Element, parsed, read, unlinked_figures
from tests.replay.report.planted_clusters import MARKUP_NAMES, busy, called, cluster_facts, of

STORIES = sorted(path.name.removesuffix(".story.jsonl") for path in HISTORIES.glob("*.story.jsonl"))
USUAL = ("exactly-once-3.9", "life-4.3", "odd-records-3.9")


def pictured(*logs: PlantedLog, release: str = "3.9") -> Element:
    """Parsed page with a cluster (`c0`, `c1`, …) for each log; the workers run `release`."""
    return read(
        page(
            [
                cluster_facts(of(log), f"c{number}", release=release)
                for number, log in enumerate(logs)
            ]
        )
    )


def rows(table: Element) -> list[list[str]]:
    """Texts of a table's cells, row by row."""
    (body,) = table.all("tbody")
    return [[cell.text for cell in row.content] for row in body.all("tr")]


def target_of(shown: Element, link: Element) -> Element:
    """Element that a link points to."""
    return shown.by_id((link.attributes["href"] or "").removeprefix("#"))


def test_hazards_are_as_severe_as_their_verdict() -> None:
    """A hazard that only changes an order is no danger."""
    hazards = tuple(ReportedHazard(each.value, "why", "config 0@1") for each in Danger)
    connector = ReportedConnector("a", "needs preparation", (), (), (), hazards, ())
    severities = {each.text.partition(":")[0]: each.severity for each in judged(connector).reasons}
    assert severities[Danger.STOPS_WORKER.value] is Severity.DANGER
    assert severities[Danger.OFFSETS_DISAGREE.value] is Severity.WARNING
    assert severities[Danger.PARTITION_ORDER.value] is Severity.INFO


# --- content and links --------------------------------------------------------------------------


def test_a_row_links_to_the_connectors_records() -> None:
    """Each number of a row links to the counted record, or to the list of all counted records."""
    shown = pictured(busy())
    (row,) = rows(next(shown.by_id("c0-connectors").all("table")))
    assert row[:8] == ["a", "STARTED", "RUNNING", "1 FAILED", "1", "1", "1", "2"]
    (body,) = next(shown.by_id("c0-connectors").all("table")).all("tbody")
    cells = next(body.all("tr")).content
    led = [target_of(shown, next(cell.all("a"))) for cell in cells[4:8]]
    assert 'connector-a{"properties"' in led[0].text.replace(": ", ":").replace(" ", "")
    assert "restart-connector-a" in led[1].text
    assert '"state": "FAILED"' in led[2].text
    assert led[3].text == "2offsetsoffsets@0offsets@1"
    last = target_of(shown, list(led[3].all("a"))[-1])
    assert '{"position": 5}' in last.text


def test_first_seen_connectors_are_counted_under_this_name() -> None:
    """A connector of unknown age is `first seen`, in the numbers as in the marks."""
    log = PlantedLog().running("a").deleted("a").wait(MINUTE).running("a")
    for entries, words in (
        (of(PlantedLog().running("a")), "1first seen"),
        (of(log), "2first seen"),
    ):
        facts = cluster_facts(entries, goals=(), may_be_older=lambda _: True)
        assert read(page([facts])).by_id("c0k0-seen").text.startswith(f"{words}config@")


def test_an_unchanged_config_is_no_change() -> None:
    """A config that is written again unchanged is neither counted nor marked as a change."""
    log = PlantedLog().running("a").config("a", rows="2").config("a", rows="2").wait(MINUTE)
    (connector,) = cluster_facts(of(log), goals=()).connectors
    assert connector.numbers["changed"] == 1
    assert connector.places["changed"] == "config@3"


def test_a_number_without_its_evidence_is_noticed() -> None:
    """The check `unlinked_figures` finds a number without a link."""
    text = "<table><tr><td class=n>7</td><td class=n><a href='#a'>8</a></td></tr></table>"
    assert [element.text for element in unlinked_figures(parsed([text]))] == ["7"]


@pytest.mark.parametrize(
    ("text", "has_evidence"),
    [
        ("<summary>6 for information</summary>", False),
        ("<summary><a href='#a'>6 for information</a></summary>", True),
        ("<summary><a href='#a'>4</a> of 4 connectors are compatible</summary>", False),
        ("<p class=more>… and 1 more</p>", False),
        ("<p class=more>… and 1 more: <code>replay audit</code> lists all.</p>", True),
        ("<li><span class=chips><a href='#a'>config@1</a>and 4 more</span></li>", False),
    ],
)
def test_a_sentence_that_counts_without_evidence_is_noticed(
    text: str, *, has_evidence: bool
) -> None:
    """The check finds a sentence with a number outside of a link, unless it names a command."""
    assert (list(unlinked_figures(parsed([text]))) == []) is has_evidence


def test_subjects_link_to_their_findings() -> None:
    """The badge of a connector's row and a cell of the release matrix link to the reasons."""
    log = PlantedLog().running("a").target("a", PAUSED).config("a", password="s3cret")
    shown = pictured(log)
    (body,) = next(shown.by_id("c0-connectors").all("table")).all("tbody")
    badge = list(next(body.all("tr")).all("a"))[-1]
    assert badge.text == "danger"
    assert "loses 1 task" in target_of(shown, badge).text
    shown = pictured(log, release="3.4")
    matrix = next(shown.by_id("c0-releases").all("table", "matrix"))
    cells = list(matrix.all("tr"))[2].content
    assert target_of(shown, next(cells[3].all("a"))).text.startswith("! a")


def test_read_records_link_to_their_ends() -> None:
    """Links lead to the first and last record of all partitions, and of a single partition."""
    shown = pictured(busy())
    first, last = (target_of(shown, link) for link in next(shown.all("p", "span")).all("a"))
    assert next(first.all("code")).text == "config@0"
    assert next(last.all("code")).text == "offsets@2"
    rows_read = next(shown.by_id("c0-read").all("tbody")).all("tr")
    ends = [[target_of(shown, link).content[0].text for link in row.all("a")] for row in rows_read]
    assert ends[0] == ["config@6", "config@0", "config@6"]


def test_a_time_breaks_after_its_date_and_is_copied_whole() -> None:
    """A narrow cell can break a time after the date; its text is as other commands print it."""
    entries = {
        f"config@{entry.offset}": entry for entry in of(busy()) if entry.topic == TOPICS.config
    }
    body = next(pictured(busy()).by_id("c0-evidence").all("tbody"))
    (row,) = (row for row in body.all("tr") if next(row.all("code")).text == "config@0")
    cell = next(row.all("td"))
    assert cell.text == time_text(entries["config@0"].timestamp)
    date, opportunity, time = cell.content
    assert (date[-1], opportunity.name, time[-1]) == ("T", "wbr", "Z")


def test_a_line_ends_where_its_offset_is_removed() -> None:
    """The next offset after a removed one begins a new line of the plot."""
    log = PlantedLog().running("a").offset("a", {"n": 1}).wait(MINUTE).offset("a", {"n": 9})
    log.wait(MINUTE).offset("a", None).wait(MINUTE).offset("a", None).wait(MINUTE)
    log.offset("a", {"n": 3}).wait(MINUTE)
    (card,) = pictured(log).all("article")
    lines = [str(line.attributes["points"]).split() for line in card.all("polyline")]
    assert [len(corners) for corners in lines] == [4, 2]
    assert len(list(card.all("circle"))) == 2
    assert "n: 1 → 3" in next(card.all("li")).text


def test_lanes_have_the_positions_of_their_times() -> None:
    """Horizontal positions are per cent of the time from the first record to the last."""
    entries = of(busy())
    shown = pictured(busy())
    (card,) = shown.all("article")
    target, reported, tasks = card.all("svg", "lane")
    assert [rect.classes[0] for rect in target.all("rect")] == [
        "s-STARTED",
        "s-PAUSED",
        "s-STARTED",
    ]
    assert [rect.classes[0] for rect in reported.all("rect")] == [
        *("s-RUNNING", "s-PAUSED", "s-RUNNING"),
    ]
    assert [rect.classes[0] for rect in tasks.all("rect")] == ["s-RUNNING", "s-FAILED"]
    first_ms, last_ms = entries[0].timestamp, entries[-1].timestamp
    (paused,) = (entry for entry in entries if b'state.v2": "PAUSED' in (entry.value or b""))
    share = 100 * (paused.timestamp - first_ms) / (last_ms - first_ms)
    x = float((list(target.all("rect"))[1].attributes["x"] or "").rstrip("%"))
    assert x == pytest.approx(share, abs=0.01)


def test_marks_and_offsets_are_drawn() -> None:
    """The chart marks creation, changes, restarts and resets, and draws the offset's progress."""
    (card,) = pictured(busy()).all("article")
    marks = [path.classes[0] for path in card.all("path")]
    assert marks == ["m-created", "m-changed", "m-restarted", "m-reset"]
    (line,) = card.all("polyline")
    points = [
        tuple(map(float, point.split(","))) for point in (line.attributes["points"] or "").split()
    ]
    assert all(before[0] <= after[0] for before, after in pairwise(points))
    assert [points[0][1], points[-1][1]] == [92, 8]
    assert "position: 1 → ∅" in next(card.all("li")).text
    scale = next(card.all("div", "scale"))
    assert [label.text for label in scale.content] == ["5", "position", "1"]


def test_findings_show_their_reasons_and_remedies() -> None:
    """Findings show their reasons and remedies; a record's position (`config@5`) is a link."""
    log = PlantedLog().running("a").target("a", PAUSED).config("a", password="s3cret")
    shown = pictured(log)
    findings = shown.by_id("c0-findings")
    assert "secret-in-clear" in findings.text
    assert next(next(findings.all("li", "warning")).all("a", "chip")).text.startswith("config@")
    assert "loses 1 task" in shown.by_id("c0-lint").text
    shown = pictured(log, release="3.4")
    matrix = rows(next(shown.by_id("c0-releases").all("table", "matrix")))
    assert matrix == [["all of the cluster", "✓", "!", "!"], ["a", "✓", "!", "!"]]
    (reasons,) = shown.by_id("c0-releases").all("details")
    assert next(reasons.all("summary")).text == "to 3.9.2, 4.3.0 needs preparation"
    assert "older-tasks (KAFKA-17719)" in reasons.text
    assert "appends its task configs and their commit again" in reasons.text


def test_an_informational_hazard_is_no_danger() -> None:
    """An offset that is written again under another key is information, beside a warning."""
    log = PlantedLog().running("a").target("a", PAUSED).config("a", rows="2")
    log.put(TOPICS.offsets, '["a", {"file": "f"}]', {"position": 1})
    (changes,) = pictured(log, release="3.4").by_id("c0-releases").all("ul", "judged")
    (judged,) = changes.content
    reasons = [reason.text for reason in judged.all("li")]
    assert [reason.split()[0] for reason in reasons] == ["warning", "info"]
    assert "cannot be reached by its key" in reasons[1]


def test_the_page_of_a_fleet_has_a_row_per_cluster() -> None:
    """The page has a row per cluster, findings about several clusters, and unreadable ones."""
    logs = [PlantedLog().running("a").offset("a", {"n": 1}).active("a", "orders") for _ in range(2)]
    fleet = [cluster_facts(of(log), name) for log, name in zip(logs, ("east", "west"), strict=True)]
    shown = read(page(fleet, {"north": "its manifest is <gone>"}))
    clusters = rows(next(shown.by_id("clusters").all("table")))
    assert [(row[0], row[1], row[7]) for row in clusters] == [
        ("east", "1", "7"),
        ("west", "1", "7"),
    ]
    matrix = next(shown.by_id("releases").all("table", "matrix"))
    assert [row[0] for row in rows(matrix)] == ["east", "west"]
    between = shown.by_id("shared")
    assert "sources of several clusters write orders" in between.text
    links = {chip.text: chip.attributes["href"] for chip in between.all("a", "chip")}
    assert [*links] == ["east status@2", "west status@2"]
    for link in links.values():
        assert "status-topic-orders" in shown.by_id((link or "").removeprefix("#")).text
    assert "north could not be read: its manifest is <gone>" in shown.by_id("summary").text
    tiles = {
        next(tile.all("span")).text: next(tile.all("strong")).text
        for tile in shown.all("a", "tile")
    }
    assert (tiles["clusters"], tiles["connectors"], tiles["records read"]) == ("2", "2", "14")


# --- untrusted names, secrets and any bytes -----------------------------------------------------


@pytest.mark.parametrize("name", MARKUP_NAMES)
def test_markup_in_names_is_shown_as_text(name: str) -> None:
    """Markup in names of connectors, topics and workers, and in settings' values, is text."""
    cluster = cluster_facts(of(called(name)), f"lab {name}")
    shown = read(page([cluster, cluster_facts([], "other")], {f"c{name}": name}))
    assert not any(
        element.name in {"b", "img"} and "x" in element.attributes for element in shown.every()
    )
    assert "\x1b" not in shown.text
    assert "\u202e" not in shown.text
    if name.isprintable() and name:
        assert name in shown.text


def test_no_secret_is_in_a_page() -> None:
    """No secret of a config, a task, a trace, an offset or a source partition is shown."""
    secret = "geheim123"
    log = PlantedLog().running("a").config("a", password=secret, url=f"http://u:{secret}@h/")
    log.put(TOPICS.config, "task-a-0", {"properties": {"password": secret}})
    log.put(TOPICS.config, "commit-a", {"tasks": 1})
    log.status("task-a-0", "FAILED", trace=f"password={secret}")
    log.put(TOPICS.offsets, f'["a",{{"password":"{secret}"}}]', {"token": secret, "n": 1})
    log.session_key("c2Vzc2lvbi1zZWNyZXQ=").config("a", password=f"{secret}2")
    text = "".join(page([cluster_facts(of(log))]))
    assert secret not in text
    assert "c2Vzc2lvbi1zZWNyZXQ" not in text
    assert "[hidden]" in text


@settings(max_examples=examples(12, proved=200))
@given(log=logs(), exactly_once=st.booleans())
def test_no_bytes_end_a_page(log: list[Entry], *, exactly_once: bool) -> None:
    """A page can be made of any log."""
    read(page([cluster_facts(log, goals=("3.2", "4.3"), exactly_once=exactly_once)]))


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(STORIES, *USUAL))
def test_pages_of_recorded_clusters_are_reproducible(name: str) -> None:
    """The page of a recorded cluster is equal each time, and has a card for every connector."""
    facts = cluster_facts(recorded_entries(name))
    shown = "".join(page([facts]))
    assert shown == "".join(page([cluster_facts(recorded_entries(name))]))
    assert len(list(read([shown]).all("article"))) == len(facts.connectors)
    assert list(unlinked_figures(read([shown]))) == []


@pytest.mark.parametrize(
    "log", [PlantedLog(), PlantedLog().timeless().running("a").offset("a", {"n": 1})]
)
def test_pages_without_known_times_have_no_chart(log: PlantedLog) -> None:
    """Without known times no chart is drawn; the text is complete."""
    shown = pictured(log)
    assert "at unknown times" in shown.text
    assert not list(shown.all("article"))


# --- sizes --------------------------------------------------------------------------------------


def test_omitted_rows_are_counted() -> None:
    """The page has as many rows as its limits allow, and names the command that prints all."""
    log = PlantedLog()
    for number in range(12):
        log.running(f"a{number:02}").config(f"a{number:02}", password="s3cret")
    limits = PageLimits(drawn=2, listed=5, findings=3, evidence=4)
    shown = read(page([cluster_facts(of(log), limits=limits)]))
    assert len(list(shown.all("article"))) == 2
    assert len(rows(next(shown.by_id("c0-connectors").all("table")))) == 5
    assert "… and 7 more connectors: replay state lists all." in shown.text
    assert "3 connectors more are not drawn." in shown.text
    assert len(list(shown.by_id("c0-findings").all("li"))) == 3
    assert "more findings: replay audit lists all." in shown.text
    (table,) = shown.by_id("c0-evidence").all("table", "evidence")
    assert len(rows(table)) == 4
    assert "more records: replay history lists all." in shown.text
    (footer,) = shown.all("footer")
    assert "lists up to 5 connectors and draws up to 2." in footer.text
    assert PageLimits.shared_by(1).drawn > PageLimits.shared_by(50).drawn


def test_omitted_steps_are_counted() -> None:
    """Steps of a plan beyond the limit are counted, and the page names the command."""
    log = PlantedLog()
    for name in ("a", "b", "c", "d"):
        log.running(name).target(name, PAUSED).config(name, rows="2")
    limits = PageLimits(drawn=4, listed=4, findings=3, evidence=100)
    shown = read(page([cluster_facts(of(log), limits=limits, release="3.4")]))
    changes = shown.by_id("c0-releases")
    assert len(list(next(changes.all("ol", "commands")).all("li"))) == 3
    assert "… and 1 more step: replay compat --from 3.4.1 --to 3.9.2 lists all." in changes.text
    assert list(unlinked_figures(shown)) == []


def test_every_count_has_evidence() -> None:
    """A count links to its evidence; omitted parts name the command that prints them."""
    log = (
        PlantedLog()
        .running("c")
        .running("d")
        .running("b")
        .config("b", password="s3cret")
        .running("a")
    )
    for number in range(12):
        log.restart("a").wait(MINUTE).offset("a", {"position": number}, file=str(number))
        log.wait(MINUTE).config("a", password=f"s3cret{number}", rows=str(number))
        log.target("a", PAUSED)
    facts = cluster_facts(of(log), limits=PageLimits(2, 3, 4, 10_000), release="3.4")
    judged = [msgspec.structs.replace(judgement, more=2) for judgement in facts.changes[-1].judged]
    change = msgspec.structs.replace(facts.changes[-1], judged=tuple(judged))
    shown = read(page([msgspec.structs.replace(facts, changes=(*facts.changes[:-1], change))]))
    assert list(unlinked_figures(shown)) == []
    for sentence in COUNTING:
        assert re.search(sentence, shown.text), sentence
    links = {link.text: link for summary in shown.all("summary") for link in summary.all("a")}
    assert len(list(target_of(shown, links["2"]).all("li"))) == 2
    assert len(rows(next(target_of(shown, links["3 connectors"]).all("table")))) == 3


COUNTING = (
    r"\d+ for information",
    r"2 of 3 connectors are compatible with all these releases",
    r"… and 1 more connector: replay state lists all\.",
    r"1 connector more is not drawn\.",
    r"… and 6 more partitions: replay timeline --offsets lists all\.",
    r"and 4 more: replay history lists all",
    r"… and \d+ more findings?: replay audit lists all\.",
    r"… and 2 more reasons: replay compat --from 3\.4\.1 --to 4\.3\.0 lists all\.",
)
"""Patterns of sentences with a count; the page has each of them."""


@pytest.mark.slow
def test_a_connector_that_never_rests_is_drawn_in_steps() -> None:
    """The size of a chart is bounded, however many failures, changes and offsets there are."""
    log = PlantedLog().running("a")
    for number in range(1_500):
        log.status("task-a-0", "FAILED" if number % 2 else "RUNNING")
        log.offset("a", {"position": number}).config("a", n=str(number))
    (connector,) = cluster_facts(of(log), goals=()).connectors
    drawn = connector.timeline
    assert drawn is not None
    assert connector.numbers["failed"] == 750
    assert 1 <= len(drawn.tasks) <= 2 * SPANS
    assert drawn.tasks[-1].failed
    assert 1 <= len(drawn.marks) <= MARKS + 1
    assert sum(mark.number for mark in drawn.marks) == 1_501
    assert 2 <= len(drawn.lines[0].points) <= 2 * POINTS + 2
    assert drawn.lines[0].points[-1].value == 1_499
