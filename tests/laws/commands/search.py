"""Looks for lives in which laws are broken: `python -m tests.laws.commands.search SEEDS LAW…`.

SEEDS are numbers of lives to begin with, with commas between: a slip is then noticed sooner.

For products that are broken on purpose. Ends with 0 as soon as each of the laws was broken once,
else with 1, and prints those that never were.
"""

import asyncio
import sys
from collections.abc import Iterable
from contextlib import suppress
from random import Random

from tests.laws.commands.life import Life
from tests.laws.commands.lives import drawn, lived
from tests.laws.commands.table import LAWS, RECOVERY

SEEDS = 300
LONGEST_SECONDS = 5
"""Time limit of one life: a broken product may wait for ever."""


def broken_laws(life: Life) -> set[str]:
    """The laws that do not hold, or cannot even be looked at."""
    found = set()
    for name, law in {**LAWS, **RECOVERY}.items():
        try:
            list(law(life))
        except Exception:  # noqa: BLE001 - what a broken product leaves may be of no form at all
            found.add(name)
    return found


def main(first: Iterable[int], names: Iterable[str]) -> int:
    """Live until nothing is left to be found."""
    wanted = set(names)
    for seed in dict.fromkeys([*first, *range(SEEDS)]):
        with suppress(Exception):
            life = asyncio.run(asyncio.wait_for(lived(drawn(Random(seed))), LONGEST_SECONDS))
            wanted -= broken_laws(life)
        if not wanted:
            return 0
    print(*sorted(wanted))  # noqa: T201 - that is what it is for
    return 1


if __name__ == "__main__":
    sys.exit(main(map(int, filter(None, sys.argv[1].split(","))), sys.argv[2:]))
