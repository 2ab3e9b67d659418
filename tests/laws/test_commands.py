"""The laws of commands, over random lives of a cluster (`commands/`, laws in `table.py`).

In a life, a real control plane on a real log gets commands, foreign records and crashes. Each law
checks every record of the life. The process also crashes after every batch of every command, on a
copy of the log. A new process then recovers.
"""

from collections import Counter
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.conftest import PROVE
from tests.laws.commands.lives import drawn, judged
from tests.laws.commands.storage import SeparateBatches, in_file, in_memory
from tests.laws.commands.table import LATER, LAWS, RECOVERY

_LAST = {"C": 5, "N": 5, "U": 4, "P": 5, "S": 5, "T": 5, "D": 6, "R": 6, "O": 9, "F": 5, "A": 5}
INVARIANTS = {
    f"{letter}{number}"
    for letter, last in {**_LAST, "K": 1, "G": 7}.items()
    for number in range(1, last + 1)
}
"""Labels of all invariants of commands; the letter is that of a group, such as C for creation."""

ALWAYS_THE_SAME = range(60) if PROVE else (15, 27, 31, 34, 44, 45, 47, 51, 54)
"""Seeds of the fixed lives; the few of `make test` suffice to give every law a case."""

LIVES = 10_000 if PROVE else 8
"""Random lives, in addition to the fixed ones."""

LIVES_IN_BATCHES = 10_000 if PROVE else 3
LIVES_IN_FILES = 1_000 if PROVE else 3
"""A life takes 0.1 s; a life in a file takes longer, because each crash reopens the file."""


def test_every_invariant_is_a_law_or_waits() -> None:
    """Every invariant is a law, or needs running tasks or Kafka's producers."""
    assert LAWS.keys() | LATER == INVARIANTS
    assert not LAWS.keys() & LATER
    assert all(law.__doc__ for law in {**LAWS, **RECOVERY}.values())


@pytest.mark.slow
@settings(max_examples=LIVES, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 2**64))
def test_laws_hold_in_any_life(seed: int) -> None:
    """The laws hold in any life, with the death of any process."""
    judged(drawn(Random(seed)))


@pytest.mark.slow
def test_every_law_has_cases() -> None:
    """Every law has cases in a fixed set of lives."""
    cases: Counter[str] = Counter()
    for seed in ALWAYS_THE_SAME:
        cases.update(judged(drawn(Random(seed))))
    assert not [name for name in (*LAWS, *RECOVERY) if not cases[name]]


@pytest.mark.slow
@settings(max_examples=LIVES_IN_BATCHES, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 2**64))
def test_laws_hold_between_separate_batches(seed: int) -> None:
    """The laws hold if "accepted", each step and "finished" are batches: a crash follows each."""
    judged(drawn(Random(seed)), partial(in_memory, SeparateBatches))


@pytest.mark.slow
@settings(max_examples=LIVES_IN_FILES, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 2**64))
def test_laws_hold_in_a_file(seed: int) -> None:
    """The laws hold in a SQLite file, too, which every process opens anew."""
    with TemporaryDirectory() as folder:
        paths = (Path(folder) / f"{number}.db" for number in count())
        judged(drawn(Random(seed)), lambda: in_file(next(paths)))
