"""Searches for lives that break laws in mutants of the product."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from random import Random

from tests.laws.commands.life import Life
from tests.laws.commands.lives import drawn, lived
from tests.laws.commands.table import LAWS, RECOVERY

SEEDS = 300
LONGEST_SECONDS = 5
"""Time limit of one life: a mutant may wait for ever."""


def broken_laws(life: Life, names: Iterable[str]) -> set[str]:
    """Names of those laws in `names` that are broken, or whose check raises an error."""
    laws, broken = {**LAWS, **RECOVERY}, set()
    for name in names:
        try:
            list(laws[name](life))
        except Exception:  # noqa: BLE001 - a mutant may leave any error
            broken.add(name)
    return broken


def main(first: Iterable[int], names: Iterable[str], most: int = SEEDS) -> int:
    """Check lives until each of the laws is broken once; return 1 and print those that never are.

    `first`: numbers of the lives to check first, which find a mutant sooner.
    """
    unbroken = set(names)
    for seed in dict.fromkeys([*first, *range(most)]):
        with suppress(Exception):
            life = asyncio.run(asyncio.wait_for(lived(drawn(Random(seed))), LONGEST_SECONDS))
            unbroken -= broken_laws(life, unbroken)
        if not unbroken:
            return 0
    print(*sorted(unbroken))  # noqa: T201 - the program prints its result
    return 1
