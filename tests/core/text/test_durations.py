"""Texts of durations and ages, as printed for people."""

import pytest

from controlplane.core.moments import time_text
from controlplane.core.text.durations import duration_text, since_text


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (-5_000, "0 s"),
        (0, "0 s"),
        (999, "0 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (3_599_999, "59 min"),
        (3_600_000, "1 h"),
        (86_399_999, "23 h"),
        (86_400_000, "1 d"),
        (40_000_000_000, "462 d"),
    ],
)
def test_durations_are_rounded_to_their_largest_unit(duration_ms: int, text: str) -> None:
    """Durations are rounded down to the largest unit."""
    assert duration_text(duration_ms) == text


def test_known_times_have_an_age() -> None:
    """A known time is printed with its age, an unknown one without."""
    time = time_text(1_000)
    assert since_text(time, 11_000_000) == f"{time} (3 h)"
    assert since_text(time, None) == time
    for unknown in (time_text(-1), "?"):
        assert since_text(unknown, 1_000) == unknown
