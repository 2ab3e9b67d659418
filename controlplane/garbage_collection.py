"""Garbage collection settings of a process whose only work is a control plane.

The state lives long and has no cycles; nearly all objects of a command die with its answer.
Python's defaults scan the whole heap each time it grows by a quarter, and young objects after every
700 allocations. These scans cost a busy service a fifth of its time and cause its longest pauses
(`benchmarks/commands.py`). An embedding program decides this for itself.
"""

import gc

YOUNG_OBJECTS = 10_000
"""New objects that trigger a collection of the young generation: some 150 running commands, a few
MB."""
YOUNG_ROUNDS = 10
OLDER_ROUNDS = 100
"""Collections of one generation that trigger one of the next. 10 young ones mean some 100,000
objects; every thread waits 10 ms for their collection."""


def freeze_long_lived() -> None:
    """Exempt all current objects from collection. Call it once, when the start-up is over."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_ROUNDS, OLDER_ROUNDS)
