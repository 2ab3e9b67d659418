"""Random choices: a seeded `Random`, and the share of ill-formed records in a log."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

Item = TypeVar("Item")


class Draw:
    """Random choices for one log.

    `wildness` (0 to 3) scales the probability of ill-formed records. At 0 all records are
    well-formed and build upon each other; at 3 most kinds of errors occur.
    """

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)
        self.wildness = self.one_of((0.0, 0.3, 1.0, 1.0, 3.0))

    def one_of(self, items: Sequence[Item]) -> Item:
        """One of the items, each as likely as the others; repeat an item to make it likelier."""
        return items[int(self._random.random() * len(items))]

    def chance(self, probability: float) -> bool:
        """True with this probability, in logs of any wildness."""
        return self._random.random() < probability

    def mishap(self, probability: float) -> bool:
        """True with this probability times the wildness of the log."""
        return self._random.random() < probability * self.wildness

    def below(self, bound: int) -> int:
        """An integer from 0 to below the bound."""
        return int(self._random.random() * bound)

    def count(self, most: int) -> int:
        """An integer from 1 to `most`; small ones are likelier."""
        return 1 + int(self._random.random() ** 2 * most)
