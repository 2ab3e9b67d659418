"""Time axis of a chart, with round times as ticks."""

from controlplane.page.html import Html, el
from controlplane.page.timeline import TimeRange
from controlplane.page.times import DAY_MS, MINUTE_MS, tick_words, time_words

TICKS = 6
"""Greatest number of ticks."""

_STEPS_MS = (
    *(number * 1_000 for number in (1, 2, 5, 10, 15, 30)),
    *(number * MINUTE_MS for number in (1, 2, 5, 10, 15, 30)),
    *(number * 60 * MINUTE_MS for number in (1, 2, 3, 6, 12)),
)
"""Tick steps shorter than a day, in milliseconds."""

_EDGE_PERCENT = 12
"""Within this distance from an end, a label stands beside its tick, not around it."""


class TimeAxis:
    """Positions of times in a chart, in per cent of its width."""

    def __init__(self, time: TimeRange) -> None:
        self._first_ms = time.first_ms
        self._last_ms = time.last_ms
        self._length_ms = time.step_ms(1)

    def percent(self, at_ms: int) -> float:
        """Position of a time in per cent of the width, from 0 to 100."""
        return round(100 * min(1, max(0, at_ms - self._first_ms) / self._length_ms), 3)

    def ticks(self) -> list[int]:
        """Round times (ms), or the first time if no round time lies in the range."""
        step = self._step_ms()
        first = -(-self._first_ms // step) * step  # rounded up to a multiple of the step
        return list(range(first, self._last_ms + 1, step)) or [self._first_ms]

    def grid(self) -> list[Html]:
        """A vertical line at each tick."""
        places = (f"{self.percent(tick)}%" for tick in self.ticks())
        return [el("line", x1=x, x2=x, y1="0", y2="100%", class_="grid") for x in places]

    def labels(self) -> Html:
        """Labels of the ticks; CSS hides every other one on narrow screens."""
        step, ticks = self._step_ms(), self.ticks()
        words = [tick_words(tick, step) for tick in ticks]
        longer = [word for _, word in words]
        texts = [
            self._label(
                tick, words[number][0], _second_line(longer, number), is_odd=number % 2 == 1
            )
            for number, tick in enumerate(ticks)
        ]
        whole = f"from {time_words(self._first_ms)} to {time_words(self._last_ms)}"
        return el("svg", texts, class_="axis", role="img", aria_label=whole)

    def _step_ms(self) -> int:
        """The shortest round step that gives at most `TICKS` ticks."""
        for step in _STEPS_MS:
            if self._length_ms < step * TICKS:
                return step
        days = 1  # then 2, 5, 10, 20, 50, …
        while self._length_ms >= days * DAY_MS * TICKS:
            days = days * 5 // 2 if str(days).startswith("2") else days * 2
        return days * DAY_MS

    def _label(self, at_ms: int, text: str, second: str | None, *, is_odd: bool) -> Html:
        place = self.percent(at_ms)
        near_end, near_start = place > 100 - _EDGE_PERCENT, place < _EDGE_PERCENT
        anchor = "end" if near_end else "start" if near_start else "middle"
        x, kind = f"{place}%", "odd" if is_odd else None
        below = None if second is None else el("tspan", second, x=x, dy="1.25em")
        return el("text", text, below, x=x, y="1em", text_anchor=anchor, class_=kind)


def _second_line(longer: list[str], number: int) -> str | None:
    """Second line of a label: the day or year, if it differs from that of the previous tick.

    CSS may hide the odd ticks, so an even tick is compared with both ticks before it.
    """
    before = longer[max(0, number - 2) : number] if number % 2 == 0 else longer[number - 1 : number]
    return longer[number] if not before or set(before) != {longer[number]} else None
