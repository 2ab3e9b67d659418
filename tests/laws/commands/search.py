"""Looks for lives in which laws are broken, for products that are broken on purpose."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from random import Random

from tests.laws.commands.life import Life
from tests.laws.commands.lives import drawn, lived
from tests.laws.commands.table import LAWS, RECOVERY

SEEDS = 300
LONGEST_SECONDS = 5
"""Time limit of one life: a broken product may wait for ever."""


def broken_laws(life: Life, names: Iterable[str]) -> set[str]:
    """Names of the laws, among `names`, that do not hold or cannot even be looked at."""
    laws, broken = {**LAWS, **RECOVERY}, set()
    for name in names:
        try:
            list(laws[name](life))
        except Exception:  # noqa: BLE001 - what a broken product leaves may be of no form at all
            broken.add(name)
    return broken


def main(first: Iterable[int], names: Iterable[str], most: int = SEEDS) -> int:
    """Look at lives until each of the laws was broken once; 1 if some never were, which it prints.

    `first`: numbers of the lives to begin with; a slip is then noticed sooner.
    """
    unbroken = set(names)
    for seed in dict.fromkeys([*first, *range(most)]):
        with suppress(Exception):
            life = asyncio.run(asyncio.wait_for(lived(drawn(Random(seed))), LONGEST_SECONDS))
            unbroken -= broken_laws(life, unbroken)
        if not unbroken:
            return 0
    print(*sorted(unbroken))  # noqa: T201 - that is what it is for
    return 1
