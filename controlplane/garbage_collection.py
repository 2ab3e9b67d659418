"""Garbage collection settings of processes whose only work is a control plane or a replay.

The state is long-lived and has no cycles; nearly all objects of a command die with its answer.
By default, Python 3.11 scans the whole heap each time it grows by a quarter. Young objects are
scanned after every 700 allocations. These scans cost a busy service a fifth of its time, and cause
its longest pauses (`benchmarks/commands.py`). They cost `replay state` a sixth of its time. An
embedding program chooses its own settings.
"""

import gc

YOUNG_OBJECTS = 10_000
"""New objects that trigger a collection of the young generation: some 150 running commands, a few
MB."""
YOUNG_ROUNDS = 10
OLDER_ROUNDS = 100
"""Number of collections of one generation that trigger one of the next. 10 young collections mean
some 100,000 objects; collecting them stops every thread for 10 ms."""


def freeze_long_lived() -> None:
    """Exempt all current objects from collection; set the thresholds. Call it after start-up."""
    gc.collect()
    gc.freeze()
    collect_rarely()


def collect_rarely() -> None:
    """Set the thresholds: for a process that builds large states."""
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_ROUNDS, OLDER_ROUNDS)
