"""Digests of raw offsets: hashes of single rows, added up."""

from hashlib import blake2b

import pytest

from controlplane.core.state import OffsetState
from replay.engine.states import state_digest
from replay.engine.states.state_digest import digest_text, offsets_sum

Values = dict[bytes | None, bytes | None]


def _plain_sum(topic: str, values: Values) -> int:
    """Sum by the definition: table, lengths, key and value of each row."""
    table = f"offsets of {topic}".encode()
    total = 0
    for key, value in values.items():
        lengths = tuple(-1 if part is None else len(part) for part in (key, value))
        row = len(table).to_bytes(4) + table + b"%d:%d:" % lengths + (key or b"") + (value or b"")
        total += int.from_bytes(blake2b(row, digest_size=32).digest())
    return total


@pytest.mark.parametrize("kept", [0, 1, 4_096])
def test_offsets_have_the_sum_of_the_hashes_of_their_rows(
    kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Null and empty contents differ; the number of kept hashes changes nothing."""
    monkeypatch.setattr(state_digest, "_BEGUN_HASHES", kept)
    values: Values = {None: b"", b"": None, b"x": b"", b"y": None}
    values |= {b"k" * (number % 9 + 2): b"v" * number for number in range(40)}
    sums = [offsets_sum({"t": OffsetState(values)}), _plain_sum("t", values)]
    assert digest_text(sums[0]) == digest_text(sums[1])
