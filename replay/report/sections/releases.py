"""What a change of release would do: a matrix, and the reasons."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from controlplane.core.safe_text import count
from replay.findings import called
from replay.report.evidence import Index
from replay.report.facts import Change, Judged, Looked, Reason
from replay.report.html import Content, Html, el
from replay.report.sections.parts import VERDICT_WORDS, badge, more, table, verdict


def releases(looked: Looked, index: Index) -> Html:
    """From the release that the workers are to each of the others."""
    groups = _alike(looked.changes)
    return el(
        "section",
        el("h3", f"From {looked.release} to …"),
        legend(),
        _matrix(looked, _anchors(groups, index), index),
        [_changes(looked, alike, index) for alike in groups],
        id=index.part("releases"),
    )


def fleet_matrix(fleet: Sequence[Looked], indexes: Sequence[Index]) -> Html:
    """Clusters and releases: each cell leads to what is to be said about it."""
    rows = [
        [
            el("a", el("b", looked.cluster), href=f"#c{index.number}"),
            *(_cell(one.verdict, f"#{_whole(one, index)}") for one in looked.changes),
        ]
        for looked, index in zip(fleet, indexes, strict=True)
    ]
    matrix = table(_heads("cluster", fleet[0]), rows, "matrix")
    title = el("h2", f"From {fleet[0].release} to …")
    return el("section", title, legend(), matrix, id="releases")


def legend() -> Html:
    """What the signs mean."""
    words = [el("span", verdict(one), f" {VERDICT_WORDS[one]}") for one in range(3)]
    return el("div", words, class_="legend")


def _whole(change: Change, index: Index) -> str:
    """Where it is told what a change does to a cluster."""
    return index.change(change.goal) if change.verdict else index.part("releases")


def _heads(first: str, looked: Looked) -> list[Content]:
    """The release lines; that of the workers themselves is marked."""
    now = _line_of(looked.release)
    lines = [_line_of(one.goal) for one in looked.changes]
    return [first, *(el("b", one, class_="now") if one == now else one for one in lines)]


def _line_of(release: str) -> str:
    return release.rpartition(".")[0]


_Anchors = Mapping[tuple[str, str | None], str]
"""Of a release and a connector: where it is told what the one does to the other."""


def _anchors(groups: Iterable[Sequence[Change]], index: Index) -> _Anchors:
    return {
        (change.goal, judged.connector): index.change(alike[0].goal, row)
        for alike in groups
        for change in alike
        for row, judged in enumerate(alike[0].judged)
    }


def _matrix(looked: Looked, anchors: _Anchors, index: Index) -> Content:
    whole: list[Content] = [
        el("i", "all of the cluster"),
        *(_cell(one.verdict, f"#{_whole(one, index)}") for one in looked.changes),
    ]
    rows: list[list[Content]] = [whole]
    good: list[Html] = []
    for number, one in enumerate(looked.connectors):
        name = called(one.name)
        card = None if one.timeline is None else f"#{index.card(number)}"
        title = el("span", name) if card is None else el("a", name, href=card)
        if not any(one.verdicts):
            good.append(title)
            continue
        verdicts = zip(one.verdicts, looked.changes, strict=True)
        cells = (_cell(bad, _told(change, one.name, anchors, index)) for bad, change in verdicts)
        rows.append([title, *cells])
    return table(_heads("connector", looked), rows, "matrix"), _compatible(good, looked, index)


def _compatible(good: Sequence[Html], looked: Looked, index: Index) -> Html | None:
    """Those of which there is nothing to tell, folded up."""
    if not good:
        return None
    here, every = index.part("compatible"), count(len(looked.connectors), "connector")
    words = el(
        "summary",
        el("a", f"{len(good):,}", href=f"#{here}"),
        " of ",
        el("a", every, href=f"#{index.part('connectors')}"),
        " are compatible with all",
    )
    return el("details", words, el("ul", [el("li", one) for one in good], class_="names", id=here))


def _told(change: Change, connector: str, anchors: _Anchors, index: Index) -> str:
    return f"#{anchors.get((change.goal, connector), _whole(change, index))}"


def _cell(number: int, href: str) -> Html:
    return el("a", verdict(number), href=href)


def _alike(changes: Iterable[Change]) -> list[list[Change]]:
    """Changes to which there is something to say; next to each other those of which it is the same.

    Sentences name the release, so it is the same if it is about the same records.
    """
    bad = (one for one in changes if one.verdict)
    return [list(alike) for _, alike in groupby(bad, key=_about)]


def _about(change: Change) -> tuple[object, ...]:
    judged = (
        (
            one.connector,
            one.verdict,
            one.more,
            *((each.severity, each.places) for each in one.reasons),
        )
        for one in change.judged
    )
    return change.verdict, change.more, change.commands, *judged


def _changes(looked: Looked, alike: Sequence[Change], index: Index) -> Html:
    """The reasons of several changes, in the words of the first."""
    change = alike[0]
    command = f"replay compat --from {looked.release} --to {change.goal}"
    goals = [
        (el("span", one.goal, id=index.change(one.goal)), ", " if one is not alike[-1] else " ")
        for one in alike
    ]
    told = [
        _judged(one, index, index.change(change.goal, row), command)
        for row, one in enumerate(change.judged)
    ]
    return el(
        "details",
        el("summary", "to ", goals, verdict(change.verdict, words=True)),
        el("ul", told, class_="judged"),
        more(change.more, "connector", command),
        _commands(change),
    )


def _judged(one: Judged, index: Index, anchor: str, command: str) -> Html:
    return el(
        "li",
        el("p", verdict(one.verdict), " ", el("b", called(one.connector))),
        el("ul", [_reason(reason, index) for reason in one.reasons]),
        more(one.more, "reason", command),
        id=anchor,
    )


def _reason(reason: Reason, index: Index) -> Html:
    return el("li", badge(reason.severity), " ", reason.text, " ", index.chips(reason.places))


def _commands(change: Change) -> Content:
    if not change.commands:
        return None
    steps = [
        el("li", el("code", command), el("span", f"{when}: {why}"))
        for when, command, why in change.commands
    ]
    return el("h5", "What to do"), el("ol", steps, class_="commands")
