"""Reading a log in a program with `open_log`, `load` and `load_at` from `controlplane`."""

import pytest

from controlplane import (
    LogNotUsable,
    LogUnavailable,
    Profile,
    UnknownMoment,
    load,
    load_at,
    open_log,
    views,
)
from tests.recorded_requests import HISTORIES

LIFE = str(HISTORIES / "life-3.9.log.jsonl")


async def test_a_log_is_closed_behind_its_block() -> None:
    """Leaving the block closes every log, including one in memory."""
    async with await open_log(LIFE) as opened:
        assert await opened.log.topics()
    with pytest.raises(LogUnavailable):
        await opened.log.topics()


async def test_a_state_of_the_past_is_that_of_a_release() -> None:
    """A moment is a record, a time or a vector; the state at the end equals that of `load`."""
    async with await open_log(LIFE) as opened:
        log, old, new = opened.log, Profile.of("3.4"), Profile.of("3.9")
        then = {
            profile: (await load_at(log, "config@57", profile)).snapshot() for profile in (old, new)
        }
        assert [str(views.target(state, "pages")) for state in then.values()] == [
            "Target.PAUSED",
            "Target.STOPPED",
        ]
        vector = (
            '{"connect-configs":[58],"connect-offsets":[17,6,4,5,1],"connect-status":[28,68,15]}'
        )
        for moment in (vector, "2026-11-20T22:53:00Z"):
            state = (await load_at(log, moment, new)).snapshot()
            assert views.connectors(state) == views.connectors(then[new])
        now = (await load(log, new)).snapshot()
        end = (await load_at(log, "2026-11-21T00:00:00Z", new)).snapshot()
        assert (end.config, end.status, end.ends_by_topic) == (
            *(now.config, now.status, now.ends_by_topic),
        )


async def test_unreadable_logs_and_moments_raise() -> None:
    """A missing moment raises `UnknownMoment`, a missing log `LogNotUsable`."""
    async with await open_log(LIFE) as opened:
        for moment in ("banana", "config@1000", "2001-01-01"):
            with pytest.raises(UnknownMoment):
                await load_at(opened.log, moment, Profile.of("3.9"))
    with pytest.raises(LogNotUsable):
        await open_log("nowhere.db")
