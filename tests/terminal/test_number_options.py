"""Errors about numbers: they name the range, and repeat only the beginning of a long value."""

from pathlib import Path

import pytest

from controlplane.core.entry import Entry
from tests.cli.command_calls import call, embedded

DIGITS = "9" * 5_000


@pytest.mark.parametrize(
    ("words", "ending"),
    [
        (("serve", "a.db", "--port", DIGITS), "is no whole number from 0 to 65535"),
        (("pause", "a", "-c", "a.db", "--timeout", f"{DIGITS}x"), "is no number from 0 on"),
        (("restart", "task", DIGITS, "-c", "a.db"), "is no task: write it like orders/0"),
        (("patch", "connector", "a", "-c", "a.db", "-s", DIGITS), "write it like tasks.max=2"),
        (("inspect", "a.db", "--partitions", f"x={DIGITS}"), "is not of the form TOPIC=N"),
        (("config", "--override", DIGITS), "write it like group.id=fleet"),
        (("config", "--override", f"rest.port={DIGITS}"), "use a whole number from 0 to 65535"),
    ],
    ids=["port", "timeout", "task", "set", "partitions", "override", "overridden"],
)
def test_a_long_number_is_shortened_in_the_refusal(
    words: tuple[str, ...], ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence stays short, and its end says what to write."""
    monkeypatch.chdir(tmp_path)
    embedded(tmp_path / "a.db", [Entry("connect-configs", 0, 0, 0, b"connector-a", None)])
    result = call(*words, columns=400)
    sentence = result.err.splitlines()[-1]
    assert result.code == 2, result
    assert sentence.endswith(ending)
    assert len(sentence) < 200
