"""Round times on the time axis below a chart."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.moments import read_time_ms
from controlplane.page.time_axis import TICKS, TimeAxis
from controlplane.page.timeline import TimeRange
from tests.replay.report.page_reader import parsed

LAST_MS = 2**53
"""Time beyond any calendar, which brokers accept as a timestamp."""


def axis(first: str, last: str) -> TimeAxis:
    """Time axis from one time to another."""
    return TimeAxis(TimeRange(read_time_ms(first), read_time_ms(last)))


def label_lines(time_axis: TimeAxis) -> list[list[str]]:
    """Lines of each label of the axis."""
    (picture,) = parsed([time_axis.labels()]).all("svg")
    return [
        [part if isinstance(part, str) else part.text for part in label.content]
        for label in picture.all("text")
    ]


@pytest.mark.parametrize(
    ("first", "last", "labels"),
    [
        (
            "2026-11-20T22:49:57Z",
            "2026-11-20T22:55:02Z",
            [["22:50", "11-20"], ["22:51"], ["22:52"], ["22:53"], ["22:54"], ["22:55"]],
        ),
        (
            "2026-11-20T22:49:57Z",
            "2026-11-20T22:50:07Z",
            [["22:49:58", "11-20"], ["22:50:00"], ["22:50:02"], ["22:50:04"], ["22:50:06"]],
        ),
        (
            "2026-11-20T21:00:00Z",
            "2026-11-21T06:00:00Z",
            # A narrow screen hides every other label: then 02:00 follows 22:00 and needs its day.
            [["22:00", "11-20"], ["00:00", "11-21"], ["02:00", "11-21"], ["04:00"], ["06:00"]],
        ),
        (
            "2026-12-25T08:00:00Z",
            "2027-01-03T08:00:00Z",
            [["12-27", "2026"], ["12-29"], ["12-31"], ["01-02", "2027"]],
        ),
        ("2026-11-20T22:49:57.100Z", "2026-11-20T22:49:57.200Z", [["22:49:57", "11-20"]]),
    ],
)
def test_times_are_round(first: str, last: str, labels: list[list[str]]) -> None:
    """A label has the day or year where a new one begins."""
    assert label_lines(axis(first, last)) == labels


@given(first_ms=st.integers(0, LAST_MS), length_ms=st.integers(0, LAST_MS))
def test_the_number_of_ticks_is_small_for_any_span(first_ms: int, length_ms: int) -> None:
    """Ticks lie within the chart at equal distances."""
    last_ms = first_ms + length_ms
    time_axis = TimeAxis(TimeRange(first_ms, last_ms))
    ticks = time_axis.ticks()
    assert 1 <= len(ticks) <= TICKS + 1
    assert all(first_ms <= tick <= last_ms for tick in ticks)
    assert len({after - before for before, after in pairwise(ticks)}) <= 1
    assert len(label_lines(time_axis)) == len(ticks)
