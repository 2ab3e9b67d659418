"""Worker processes of Spark: Python processes that run one task after another."""

import sys
from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import Concatenate, ParamSpec, cast

import pyarrow as pa

from controlplane.garbage_collection import freeze_long_lived

ArrowBatches = Iterator[pa.RecordBatch]
P = ParamSpec("P")
ArrowTask = Callable[Concatenate[ArrowBatches, P], ArrowBatches]
"""`mapInArrow` function; the caller binds its further arguments with `partial`."""


def in_worker(task: ArrowTask[P]) -> ArrowTask[P]:
    """Decorate a `mapInArrow` function, so that its process collects garbage quickly.

    Spark collects the garbage of a process after each task. Without the decorator, each collection
    would scan the objects of all imported modules. This takes longer than a small task.
    """

    @wraps(task)
    def run(batches: ArrowBatches, *arguments: P.args, **named: P.kwargs) -> ArrowBatches:
        _freeze(len(sys.modules))
        return task(batches, *arguments, **named)

    return cast("ArrowTask[P]", run)


@cache
def _freeze(_modules: int) -> None:
    """Exempt the imported modules from collection; again once there are more of them."""
    freeze_long_lived()
