"""What a change of release would do: a matrix, and the reasons."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from replay.findings import called
from replay.report.evidence import Index
from replay.report.facts import Change, Judged, Looked, Reason
from replay.report.html import Content, Html, el
from replay.report.sections.parts import VERDICT_WORDS, badge, more, table, verdict


def releases(looked: Looked, index: Index) -> Html:
    """From the release that the workers are to each of the others."""
    return el(
        "section",
        el("h3", f"From {looked.release} to …"),
        _legend(),
        _matrix(looked, index),
        [_changes(looked, alike, index) for alike in _alike(looked.changes)],
        id=f"c{index.number}-releases",
    )


def _legend() -> Html:
    words = [el("span", verdict(one), f" {VERDICT_WORDS[one]}") for one in range(3)]
    return el("div", words, class_="legend")


def _matrix(looked: Looked, index: Index) -> Html:
    heads: list[Content] = ["connector", *(one.goal.rpartition(".")[0] for one in looked.changes)]
    whole: list[Content] = [
        el("i", "all of the cluster"),
        *(_cell(one.verdict, one, index) for one in looked.changes),
    ]
    rows: list[list[Content]] = [
        [
            called(one.name),
            *(
                _cell(number, change, index)
                for number, change in zip(one.verdicts, looked.changes, strict=True)
            ),
        ]
        for one in looked.connectors
        if any(one.verdicts)
    ]
    quiet = len(looked.connectors) - len(rows)
    note = f"{quiet} of {len(looked.connectors)} connectors are compatible with all of them."
    return el("div", table(heads, [whole, *rows], "matrix"), el("p", note, class_="more"))


def _cell(number: int, change: Change, index: Index) -> Html:
    sign = verdict(number)
    return el("a", sign, href=f"#{_anchor(change, index)}") if number else sign


def _anchor(change: Change, index: Index) -> str:
    return f"c{index.number}v{change.goal.replace('.', '-')}"


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
    way = f"--from {looked.release} --to {change.goal}"
    goals = [
        (el("span", one.goal, id=_anchor(one, index)), ", " if one is not alike[-1] else " ")
        for one in alike
    ]
    return el(
        "details",
        el("summary", "to ", goals, verdict(change.verdict, words=True)),
        el("ul", [_judged(one, index) for one in change.judged], class_="judged"),
        more(change.more, "connector", f"replay compat {way}"),
        _commands(change),
    )


def _judged(one: Judged, index: Index) -> Html:
    return el(
        "li",
        el("p", verdict(one.verdict), " ", el("b", called(one.connector))),
        el("ul", [_reason(reason, index) for reason in one.reasons]),
        el("p", f"… and {one.more} more", class_="more") if one.more else None,
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
