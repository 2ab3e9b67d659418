"""Detection of plugin methods whose call returns before any of their code has run."""

from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TypeVar

T = TypeVar("T")


def checked_result(result: T) -> T:
    """Return the result of a plain call of a plugin's method, if the call has run the method.

    Raises:
        TypeError: the method is an `async def` or a generator, so none of its code has run.
    """
    if isinstance(result, CoroutineType):
        result.close()
        raise TypeError(f"{result.__qualname__} is an async def, which cannot run here: use def")
    if isinstance(result, GeneratorType | AsyncGeneratorType):
        raise TypeError(f"{result.__qualname__} is a generator, which cannot run here: omit yield")
    return result
