"""The head of a page: numbers of the whole fleet, and a row for each cluster."""

from collections import Counter
from collections.abc import Mapping, Sequence

from replay.report.drawing import when
from replay.report.facts import Looked, Told
from replay.report.html import Content, Html, el
from replay.report.sections.parts import table, tile, verdict

_SEVERITIES = ("danger", "warning", "info")


def summary(fleet: Sequence[Looked], shared: Sequence[Told], failed: Mapping[str, str]) -> Html:
    """The fleet in a few numbers, each of which leads on."""
    numbers: Counter[str] = Counter()
    for one in fleet:
        numbers.update(one.numbers)
        numbers.update(_found(one))
    numbers.update(one.severity.value for one in shared)
    numbers["records"] = sum(one.records for one in fleet)
    tiles = [
        *([tile("clusters", f"{len(fleet):,}", "#clusters")] if len(fleet) > 1 else []),
        tile("connectors", f"{numbers['there']:,}", _to("connectors", fleet)),
        tile("running", f"{numbers['RUNNING']:,}", _to("connectors", fleet), "good"),
        tile("failed", f"{numbers['FAILED']:,}", _to("connectors", fleet), _bad(numbers["FAILED"])),
        tile(
            "with failed tasks",
            f"{numbers['with failed tasks']:,}",
            _to("connectors", fleet),
            _bad(numbers["with failed tasks"]),
        ),
        *(
            tile(f"{word} findings", f"{numbers[word]:,}", _to("findings", fleet), word)
            for word in _SEVERITIES
        ),
        tile("records read", f"{numbers['records']:,}", _to("read", fleet)),
    ]
    return el(
        "section",
        el("div", tiles, class_="tiles"),
        [
            el("p", el("b", name), f" could not be read: {why}", class_="failed")
            for name, why in failed.items()
        ],
        _clusters(fleet) if len(fleet) > 1 else None,
        id="summary",
    )


def _bad(number: int) -> str:
    return "danger" if number else ""


def _to(section: str, fleet: Sequence[Looked]) -> str:
    return f"#c0-{section}" if len(fleet) == 1 else "#clusters"


def _clusters(fleet: Sequence[Looked]) -> Html:
    heads = (
        *("cluster", "connectors", "running", "failed", *_SEVERITIES),
        *("releases", "records", "from", "to"),
    )
    worst_first = sorted(enumerate(fleet), key=lambda each: _badness(each[1]), reverse=True)
    rows = [_cluster(number, one) for number, one in worst_first]
    return el("div", table(heads, rows, "stacked"), id="clusters")


def _cluster(number: int, one: Looked) -> tuple[Content, ...]:
    def to(section: str, text: Content) -> Html:
        return el("a", text, href=f"#c{number}-{section}", class_="number")

    numbers, found = one.numbers, _found(one)
    failed = numbers.get("FAILED", 0) + numbers.get("with failed tasks", 0)
    return (
        el("a", el("b", one.cluster), href=f"#c{number}"),
        to("connectors", f"{numbers['there']:,}"),
        to("connectors", f"{numbers.get('RUNNING', 0):,}"),
        to("connectors", f"{failed:,}"),
        *(to("findings", f"{found[word]:,}") for word in _SEVERITIES),
        to("releases", _releases(one)),
        to("read", f"{one.records:,}"),
        when(-1 if one.time is None else one.time.first_ms),
        when(-1 if one.time is None else one.time.last_ms),
    )


def _badness(one: Looked) -> list[int]:
    found = _found(one)
    return [found[word] for word in _SEVERITIES[:-1]]


def _found(one: Looked) -> Counter[str]:
    """Findings of both kinds, by severity."""
    return Counter(one.audited.numbers) + Counter(one.linted.numbers)


def _releases(one: Looked) -> Content:
    numbers = Counter(change.verdict for change in one.changes)
    return [(verdict(number), f" {numbers[number]} ") for number in range(3) if numbers[number]]
