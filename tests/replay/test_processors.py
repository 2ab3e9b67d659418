"""Work is divided among the processors that this process may use."""

import os

import pytest

from replay.processors import usable_processors


def test_processors_of_others_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may allow two of many processors."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 7}, raising=False)
    assert usable_processors() == 2


@pytest.mark.parametrize(("count", "usable"), [(8, 8), (None, 1)])
def test_all_processors_count_without_an_affinity(
    count: int | None, usable: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Systems without affinity let a process use every processor; one is certain."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert usable_processors() == usable
