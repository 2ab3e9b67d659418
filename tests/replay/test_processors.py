"""Work is divided among the processors that this process may use."""

import os
from pathlib import Path

import pytest

from replay import processors
from replay.processors import usable_processors


@pytest.fixture(autouse=True)
def cpu_max(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """File of a container's limit; it does not exist yet. The machine has 64 processors."""
    monkeypatch.setattr(processors, "CPU_MAX", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 7, 8}, raising=False)
    return tmp_path / "cpu.max"


def test_processors_of_others_do_not_count() -> None:
    """The scheduler may give three of 64 processors to this process."""
    assert usable_processors() == 3


@pytest.mark.parametrize(("count", "usable"), [(8, 8), (None, 1)])
def test_all_processors_count_without_an_affinity(
    count: int | None, usable: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Systems without affinity let a process use every processor; one is certain."""
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert usable_processors() == usable


@pytest.mark.parametrize(
    ("limit", "usable"),
    [
        ("max 100000\n", 3),
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),
        ("50000 100000\n", 1),
        ("900000 100000\n", 3),
        ("", 3),
    ],
)
def test_a_container_limits_the_cpu_time(limit: str, usable: int, cpu_max: Path) -> None:
    """A part of a processor counts as one. A file without a limit allows all."""
    cpu_max.write_text(limit)
    assert usable_processors() == usable
