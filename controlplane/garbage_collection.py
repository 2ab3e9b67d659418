"""Python's garbage collector in a process whose only work is a control plane.

What a control plane knows lives long and has no cycles; nearly all that it makes of a command dies
with the answer. Python's defaults look at all of it again after each quarter that is added, and at
what is young after every 700 objects: a fifth of the time of a busy service, and its longest pauses
(`benchmarks/commands.py`). A program that embeds a control plane decides this for itself.
"""

import gc

YOUNG_OBJECTS = 10_000
"""Made and not gone before the young are looked at: some 150 commands under way, a few MB."""
YOUNG_ROUNDS = 10
OLDER_ROUNDS = 100
"""Rounds of one generation before the next older one is looked at as well: after 10 of the young,
some 100,000 objects, for which every thread waits 10 ms."""


def settle() -> None:
    """Call once when what lives as long as the process is there: it is not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_ROUNDS, OLDER_ROUNDS)
