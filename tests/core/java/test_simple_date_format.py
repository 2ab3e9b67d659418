"""Dates as SimpleDateFormat reads and writes them; `test_conversions` compares with Kafka."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.java.simple_date_format import (
    DATE_PATTERN,
    TIME_PATTERN,
    TIMESTAMP_PATTERN,
    date_text,
    format_date,
    parse_date,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
GREGORIAN = datetime(1582, 10, 15)  # noqa: DTZ001
DAY_MS = 86_400_000


@given(st.datetimes(min_value=GREGORIAN, timezones=st.just(UTC)))
def test_moments_are_read_as_they_are_written(moment: datetime) -> None:
    """Times are written to the millisecond, and read back."""
    milliseconds = (moment - EPOCH) // timedelta(milliseconds=1)
    text = format_date(milliseconds, TIMESTAMP_PATTERN)
    assert text == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert parse_date(text, TIMESTAMP_PATTERN) == milliseconds


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("1970-01-02", 1),
        ("1970-02-30", 60),
        ("1969-13-01", 0),
        ("1970-1-1xx", 0),
        (" 1970- 1-1", 0),
        ("197E1-01-1", 0),
        ("1582-10-04", -141_428),
        ("1582-10-15", -141_427),
        ("1582-10-05", -141_427),
        ("0-20240-12", -103_495),  # 12 August 1686 of the Julian calendar
    ],
)
def test_reading_is_lenient(text: str, day: int) -> None:
    """Days and months overflow, trailing text is ignored, years before 1582 are Julian."""
    assert parse_date(text, DATE_PATTERN) == day * DAY_MS


@pytest.mark.parametrize("text", ["", "1970", "1970/01/01", "x970-01-01", "1970-01-"])
def test_other_texts_are_no_dates(text: str) -> None:
    """A text that lacks a field or a separator of the pattern is no date."""
    assert parse_date(text, DATE_PATTERN) is None


def test_times_count_from_midnight() -> None:
    """Times after 24:00 are accepted; times before 1970 are on the day before."""
    assert parse_date("24:00:00.001Z", TIME_PATTERN) == DAY_MS + 1
    assert format_date(-1, TIME_PATTERN) == "23:59:59.999Z"


def test_java_writes_the_day_of_the_week() -> None:
    """`Date.toString` shows the weekday; days before 15 October 1582 are Julian."""
    assert date_text(0) == "Thu Jan 01 00:00:00 UTC 1970"
    assert date_text(-141_427 * DAY_MS) == "Fri Oct 15 00:00:00 UTC 1582"
    assert date_text(-141_428 * DAY_MS) == "Thu Oct 04 00:00:00 UTC 1582"


@pytest.mark.parametrize(
    ("milliseconds", "day", "text"),
    [
        (-62_135_769_600_000, "0001-01-01", "Sat Jan 01 00:00:00 UTC 1"),
        (-62_135_769_600_001, "0001-12-31", "Fri Dec 31 23:59:59 UTC 1"),
        (-62_170_329_600_000, "0002-11-28", "Fri Nov 28 00:00:00 UTC 2"),
        (-(2**63), "292269055-12-02", "Sun Dec 02 16:47:04 UTC 292269055"),
    ],
)
def test_years_before_the_year_1_count_backwards(milliseconds: int, day: str, text: str) -> None:
    """Java writes the year of the era BC, without the era."""
    assert format_date(milliseconds, DATE_PATTERN) == day
    assert date_text(milliseconds) == text


@pytest.mark.parametrize("power", ["9999999", "99999999999999999999"])
def test_a_year_with_a_huge_exponent_is_read_at_once(power: str) -> None:
    """A year beyond a long is the largest int, a year below 1 is 0: no digits are computed."""
    assert parse_date(f"1E{power}-01-01", DATE_PATTERN) == parse_date("1E99-01-01", DATE_PATTERN)
    assert parse_date(f"1E-{power}-01-01", DATE_PATTERN) == parse_date("0-01-01", DATE_PATTERN)
