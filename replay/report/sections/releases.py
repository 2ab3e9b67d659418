"""Section of release changes: a matrix, and the reasons."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from controlplane.core.releases.profiles import release_line
from controlplane.core.text.safe_text import count
from controlplane.page.html import Html, HtmlContent, el
from replay.findings import called
from replay.report.page_facts import ClusterFacts, JudgedConnector, ReleaseFacts, VerdictReason
from replay.report.record_index import RecordIndex
from replay.report.sections.elements import VERDICT_WORDS, badge, omitted_note, table, verdict


def releases(cluster_facts: ClusterFacts, index: RecordIndex) -> Html:
    """Effects of a change from the workers' release to each of the others."""
    groups = _alike(cluster_facts.changes)
    return el(
        "section",
        el("h3", f"From {cluster_facts.release} to …"),
        legend(),
        _matrix(cluster_facts, _anchors(groups, index), index),
        [_changes(cluster_facts, alike, index) for alike in groups],
        id=index.part("releases"),
    )


def fleet_matrix(fleet: Sequence[ClusterFacts], indexes: Sequence[RecordIndex]) -> Html:
    """Matrix of clusters and releases; each cell links to its reasons."""
    rows = [
        [
            el("a", el("b", cluster_facts.cluster), href=f"#c{index.number}"),
            *(
                _cell(change.verdict, f"#{_change_anchor(change, index)}")
                for change in cluster_facts.changes
            ),
        ]
        for cluster_facts, index in zip(fleet, indexes, strict=True)
    ]
    matrix = table(_heads("cluster", fleet[0]), rows, "matrix")
    title = el("h2", f"From {fleet[0].release} to …")
    return el("section", title, legend(), matrix, id="releases")


def legend() -> Html:
    """Legend that explains the sign of each verdict."""
    words = [
        el("span", verdict(verdict_number), f" {VERDICT_WORDS[verdict_number]}")
        for verdict_number in range(3)
    ]
    return el("div", words, class_="legend")


def _change_anchor(change: ReleaseFacts, index: RecordIndex) -> str:
    """Anchor of the effects of a change."""
    return index.change(change.goal) if change.verdict else index.part("releases")


def _heads(first: str, cluster_facts: ClusterFacts) -> list[HtmlContent]:
    """Release lines; that of the workers is marked."""
    now = release_line(cluster_facts.release)
    lines = [release_line(change.goal) for change in cluster_facts.changes]
    return [first, *(el("b", line, class_="now") if line == now else line for line in lines)]


_Anchors = Mapping[tuple[str, str | None], str]
"""Anchor of the effect by release and connector."""


def _anchors(groups: Iterable[Sequence[ReleaseFacts]], index: RecordIndex) -> _Anchors:
    return {
        (change.goal, judged.connector): index.change(alike[0].goal, row)
        for alike in groups
        for change in alike
        for row, judged in enumerate(alike[0].judged)
    }


def _matrix(cluster_facts: ClusterFacts, anchors: _Anchors, index: RecordIndex) -> HtmlContent:
    whole: list[HtmlContent] = [
        el("i", "all of the cluster"),
        *(
            _cell(change.verdict, f"#{_change_anchor(change, index)}")
            for change in cluster_facts.changes
        ),
    ]
    rows: list[list[HtmlContent]] = [whole]
    good: list[Html] = []
    for number, connector in enumerate(cluster_facts.connectors):
        name = called(connector.name)
        card = None if connector.timeline is None else f"#{index.card(number)}"
        title = el("span", name) if card is None else el("a", name, href=card)
        if not any(connector.verdicts):
            good.append(title)
            continue
        verdicts = zip(connector.verdicts, cluster_facts.changes, strict=True)
        cells = (
            _cell(bad, _href(change, connector.name, anchors, index)) for bad, change in verdicts
        )
        rows.append([title, *cells])
    return table(_heads("connector", cluster_facts), rows, "matrix"), _compatible(
        good, cluster_facts, index
    )


def _compatible(
    good: Sequence[Html], cluster_facts: ClusterFacts, index: RecordIndex
) -> Html | None:
    if not good:
        return None
    anchor, every = index.part("compatible"), count(len(cluster_facts.connectors), "connector")
    words = el(
        "summary",
        el("a", f"{len(good):,}", href=f"#{anchor}"),
        " of ",
        el("a", every, href=f"#{index.part('connectors')}"),
        " are compatible with all these releases",
    )
    return el(
        "details", words, el("ul", [el("li", title) for title in good], class_="names", id=anchor)
    )


def _href(change: ReleaseFacts, connector: str, anchors: _Anchors, index: RecordIndex) -> str:
    return f"#{anchors.get((change.goal, connector), _change_anchor(change, index))}"


def _cell(number: int, href: str) -> Html:
    return el("a", verdict(number), href=href)


def _alike(changes: Iterable[ReleaseFacts]) -> list[list[ReleaseFacts]]:
    """Group adjacent changes with the same effects; changes without effects are left out.

    Sentences name the release, so effects are compared by their records.
    """
    bad = (change for change in changes if change.verdict)
    return [list(alike) for _, alike in groupby(bad, key=_effects_key)]


def _effects_key(change: ReleaseFacts) -> tuple[object, ...]:
    judged = (
        (
            judgement.connector,
            judgement.verdict,
            judgement.more,
            *((each.severity, each.places) for each in judgement.reasons),
        )
        for judgement in change.judged
    )
    return change.verdict, change.more, change.commands, change.more_commands, *judged


def _changes(
    cluster_facts: ClusterFacts, alike: Sequence[ReleaseFacts], index: RecordIndex
) -> Html:
    """Reasons of grouped changes, in the words of the first."""
    change = alike[0]
    command = f"replay compat --from {cluster_facts.release} --to {change.goal}"
    goals = [
        (
            el("span", release.goal, id=index.change(release.goal)),
            ", " if release is not alike[-1] else " ",
        )
        for release in alike
    ]
    items = [
        _judged(judged, index, index.change(change.goal, row), command)
        for row, judged in enumerate(change.judged)
    ]
    return el(
        "details",
        el("summary", "to ", goals, verdict(change.verdict, words=True)),
        el("ul", items, class_="judged"),
        omitted_note(change.more, "connector", command),
        _commands(change, command),
    )


def _judged(judged: JudgedConnector, index: RecordIndex, anchor: str, command: str) -> Html:
    return el(
        "li",
        el("p", verdict(judged.verdict), " ", el("b", called(judged.connector))),
        el("ul", [_reason(reason, index) for reason in judged.reasons]),
        omitted_note(judged.more, "reason", command),
        id=anchor,
    )


def _reason(reason: VerdictReason, index: RecordIndex) -> Html:
    return el("li", badge(reason.severity), " ", reason.text, " ", index.chips(reason.places))


def _commands(change: ReleaseFacts, command: str) -> HtmlContent:
    if not change.commands:
        return None
    steps = [
        el("li", el("code", step), el("span", f"{when}: {why}"))
        for when, step, why in change.commands
    ]
    left_out = omitted_note(change.more_commands, "step", command)
    return el("h5", "What to do"), el("ol", steps, class_="commands"), left_out
