"""Nodes of a regular expression, which match with sets of positions and never backtrack.

A node maps all start positions at once to the positions where its matches end. So `(a+)+b` needs
few steps, where backtracking tries each way to divide the letters. A position lies before the
character of its index; the last one is the end of the text.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from controlplane.core.java.character_sets import CharacterSet

Positions = int
"""Set of positions; bit p stands for position p."""

STEPS_MAX: Final = 20_000
"""Limit of the steps of one match, which take about 0.05 s. A usual one needs 100."""

_SHOWN_LENGTH_MAX: Final = 249
"""Longest text in an error: the longest name of a topic."""

_LETTERS_PER_STEP: Final = 10_000
"""A step counts as 1 + the text's length // this number: sets of positions are large integers."""


class MatchLimitExceeded(ValueError):
    """Matching a text needs more than `STEPS_MAX` steps."""


class PatternMatch:
    """One text, the limit of steps, and results of nodes that are needed again."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.everywhere: Positions = (1 << len(text) + 1) - 1
        self.conditions: dict[PatternNode, Positions] = {}
        """Positions where a character or condition matches."""
        self.atomic_ends: dict[tuple[PatternNode, int], int | None] = {}
        self._steps = STEPS_MAX
        self._step = 1 + len(text) // _LETTERS_PER_STEP

    @cached_property
    def letters(self) -> Mapping[str, Positions]:
        """Positions by the character that follows."""
        indices: dict[str, list[int]] = {}
        for index, char in enumerate(self.text):
            indices.setdefault(char, []).append(index)
        return {char: self.positions(own_indices) for char, own_indices in indices.items()}

    def positions(self, indices: Iterable[int]) -> Positions:
        """Return a set of positions; each of them is a step."""
        positions = 0
        for index in indices:
            self.take_step()
            positions |= 1 << index
        return positions

    def take_step(self) -> None:
        """Count a step of a node.

        Raises:
            MatchLimitExceeded: it exceeds the limit.
        """
        self._steps -= self._step
        if self._steps < 0:
            shown = self.text if len(self.text) <= _SHOWN_LENGTH_MAX else "a long text"
            reason = f"a regular expression takes more than {STEPS_MAX} steps to match {shown}"
            raise MatchLimitExceeded(f"{reason}; simplify it")


class PatternNode(ABC):
    """Part of a regular expression. Each call is a step."""

    def ends(self, match: PatternMatch, starts: Positions) -> Positions:
        """Return the ends of all matches that begin at one of these positions.

        Raises:
            MatchLimitExceeded: it exceeds the limit of steps. The other methods raise it, too.
        """
        match.take_step()
        return self._ends(match, starts) if starts else 0

    def starts(self, match: PatternMatch, ends: Positions) -> Positions:
        """Return the starts of all matches that end at one of these positions."""
        match.take_step()
        return self._starts(match, ends) if ends else 0

    def first_end(self, match: PatternMatch, start: int, allowed: Positions) -> int | None:
        """Return the end that backtracking finds first, of those that are allowed; None: none."""
        match.take_step()
        return self._first_end(match, start, allowed) if allowed else None

    @abstractmethod
    def _ends(self, match: PatternMatch, starts: Positions) -> Positions: ...

    @abstractmethod
    def _starts(self, match: PatternMatch, ends: Positions) -> Positions: ...

    @abstractmethod
    def _first_end(self, match: PatternMatch, start: int, allowed: Positions) -> int | None: ...


class Character(PatternNode):
    """One character of a set."""

    def __init__(self, characters: CharacterSet) -> None:
        self._characters = characters

    def _ends(self, match: PatternMatch, starts: Positions) -> Positions:
        return (starts & self._positions(match)) << 1

    def _starts(self, match: PatternMatch, ends: Positions) -> Positions:
        return (ends >> 1) & self._positions(match)

    def _first_end(self, match: PatternMatch, start: int, allowed: Positions) -> int | None:
        return start + 1 if self._starts(match, allowed) >> start & 1 else None

    def run_ends(self, match: PatternMatch, starts: Positions) -> Positions:
        """Return where runs of such characters end, from these positions; runs may be empty."""
        positions = self._positions(match)
        # The sum carries a start to the end of its run: 0b0110 + 0b0010 is 0b1000. The sum and
        # `positions` differ in 0b1110, from the start to the end of the run: these are the ends.
        # Every start is also the end of an empty run. `starts |` adds the starts that the
        # difference lacks:
        # - Starts outside of all runs: they are not in the sum.
        # - The second start within a run: 0b0110 + 0b0110 is 0b1100. This sum and `positions`,
        #   0b0110, differ in 0b1010. The second start, 0b0100, is missing.
        return starts | (positions + (starts & positions)) ^ positions

    def _positions(self, match: PatternMatch) -> Positions:
        positions = match.conditions.get(self)
        if positions is None:
            positions = 0
            for char, own_positions in match.letters.items():
                match.take_step()
                if char in self._characters:
                    positions |= own_positions
            match.conditions[self] = positions
        return positions


class _Condition(PatternNode):
    """A condition on a position; it matches no character."""

    def _ends(self, match: PatternMatch, starts: Positions) -> Positions:
        return starts & self._positions(match)

    def _starts(self, match: PatternMatch, ends: Positions) -> Positions:
        return ends & self._positions(match)

    def _first_end(self, match: PatternMatch, start: int, allowed: Positions) -> int | None:
        return start if self._starts(match, allowed) >> start & 1 else None

    def _positions(self, match: PatternMatch) -> Positions:
        positions = match.conditions.get(self)
        if positions is None:
            positions = match.conditions[self] = self._fulfilling(match)
        return positions

    @abstractmethod
    def _fulfilling(self, match: PatternMatch) -> Positions:
        """Return the positions that fulfil the condition."""


class Anchor(_Condition):
    """Anchor such as `^`, given as a pattern of Python.

    The pattern matches only the empty text. A search for all its matches takes linear time.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern)

    def _fulfilling(self, match: PatternMatch) -> Positions:
        return match.positions(empty.start() for empty in self._pattern.finditer(match.text))


class LookAround(_Condition):
    """Condition that a node matches after a position, or before it with `is_behind`."""

    def __init__(self, node: PatternNode, *, is_behind: bool, is_negated: bool) -> None:
        self._node = node
        self._is_behind = is_behind
        self._is_negated = is_negated

    def _fulfilling(self, match: PatternMatch) -> Positions:
        direction = self._node.ends if self._is_behind else self._node.starts
        positions = direction(match, match.everywhere)
        return match.everywhere & ~positions if self._is_negated else positions


class Concatenation(PatternNode):
    """Nodes one after the other; without nodes it matches the empty text."""

    def __init__(self, nodes: Sequence[PatternNode]) -> None:
        self._nodes = tuple(nodes)
        self._reversed = self._nodes[::-1]

    def _ends(self, match: PatternMatch, starts: Positions) -> Positions:
        for node in self._nodes:
            if not starts:
                break
            starts = node.ends(match, starts)
        return starts

    def _starts(self, match: PatternMatch, ends: Positions) -> Positions:
        for node in self._reversed:
            if not ends:
                break
            ends = node.starts(match, ends)
        return ends

    def _first_end(self, match: PatternMatch, start: int, allowed: Positions) -> int | None:
        onward = [allowed]
        for node in self._reversed:
            onward.append(node.starts(match, onward[-1]))
        if not onward.pop() >> start & 1:
            return None
        for node, ends in zip(self._nodes, reversed(onward), strict=True):
            end = node.first_end(match, start, ends)
            assert end is not None
            start = end
        return start


class Alternatives(PatternNode):
    """Nodes of which one matches; backtracking tries them in their order."""

    def __init__(self, nodes: Sequence[PatternNode]) -> None:
        self._nodes = tuple(nodes)

    def _ends(self, match: PatternMatch, starts: Positions) -> Positions:
        ends = 0
        for node in self._nodes:
            ends |= node.ends(match, starts)
        return ends

    def _starts(self, match: PatternMatch, ends: Positions) -> Positions:
        starts = 0
        for node in self._nodes:
            starts |= node.starts(match, ends)
        return starts

    def _first_end(self, match: PatternMatch, start: int, allowed: Positions) -> int | None:
        ends = (node.first_end(match, start, allowed) for node in self._nodes)
        return next((end for end in ends if end is not None), None)


_PositionStep = Callable[[PatternMatch, Positions], Positions]


class Repetition(PatternNode):
    """A node, repeated from `least` to `most` times (None: without limit)."""

    def __init__(self, node: PatternNode, least: int, most: int | None, *, is_lazy: bool) -> None:
        self._node = node
        self._least = least
        self._most = most
        self._is_lazy = is_lazy

    def _ends(self, match: PatternMatch, starts: Positions) -> Positions:
        step = self._node.ends
        return self._further(match, step, self._required(match, step, starts))

    def _starts(self, match: PatternMatch, ends: Positions) -> Positions:
        step = self._node.starts
        return self._further(match, step, self._required(match, step, ends))

    def _first_end(self, match: PatternMatch, start: int, allowed: Positions) -> int | None:
        least, most = self._limits(match)
        onward = self._onward(match, allowed)
        at = start
        for count in range(most + 1):
            is_enough = count >= least
            may_stop = is_enough and bool(allowed >> at & 1)
            if count == most or (may_stop and self._is_lazy):
                return at if may_stop else None
            following = onward[min(count + 1, len(onward) - 1)]
            if is_enough and not may_stop:
                # The match may not end at this position, so another repetition must follow. An
                # empty repetition would end the match here (`end == at`). So only repetitions
                # that end elsewhere are allowed.
                following &= ~(1 << at)
            end = self._node.first_end(match, at, following)
            if end is None or (end == at and is_enough):
                return at if may_stop else None
            at = end
        return None

    def _limits(self, match: PatternMatch) -> tuple[int, int]:
        """Return the limits for this text.

        If there are more repetitions than characters, one is empty. Leaving it out or repeating it
        changes nothing, so the limits are capped.
        """
        useful = len(match.text) + 1
        least = min(self._least, useful)
        optional = useful if self._most is None else self._most - self._least
        return least, least + min(optional, useful)

    def _required(self, match: PatternMatch, step: _PositionStep, reached: Positions) -> Positions:
        """Return the positions after the least number of repetitions."""
        least, _ = self._limits(match)
        for _ in range(least):
            following = step(match, reached)
            if following == reached:
                break
            reached = following
        return reached

    def _further(self, match: PatternMatch, step: _PositionStep, reached: Positions) -> Positions:
        """Add the positions after further repetitions, up to the maximum."""
        least, most = self._limits(match)
        new = reached
        for _ in range(most - least):
            if not new:
                break
            new = step(match, new) & ~reached
            reached |= new
        return reached

    def _onward(self, match: PatternMatch, allowed: Positions) -> Sequence[Positions]:
        """Return the positions from which a match can be completed.

        The set at index n has these positions for a match with n finished repetitions. From there,
        further repetitions or none lead to an allowed end. The last set holds for all higher n.
        """
        least, most = self._limits(match)
        last = least if self._most is None else most
        onward = [allowed]
        if self._most is None:
            onward = [Repetition(self._node, 0, None, is_lazy=False).starts(match, allowed)]
        for count in reversed(range(last)):
            earlier = self._node.starts(match, onward[-1])
            onward.append(earlier | allowed if count >= least else earlier)
        return onward[::-1]


class CharacterRepetition(Repetition):
    """A repeated character.

    Each repetition ends one position later, so optional repetitions without limit need no loop.
    """

    def __init__(self, node: Character, least: int, most: int | None, *, is_lazy: bool) -> None:
        super().__init__(node, least, most, is_lazy=is_lazy)
        self._character = node

    def _ends(self, match: PatternMatch, starts: Positions) -> Positions:
        if self._most is not None:
            return super()._ends(match, starts)
        return self._character.run_ends(match, self._required(match, self._node.ends, starts))

    def _first_end(self, match: PatternMatch, start: int, allowed: Positions) -> int | None:
        ends = self._ends(match, 1 << start) & allowed
        if not ends:
            return None
        return next(_each(ends)) if self._is_lazy else ends.bit_length() - 1


class Atomic(PatternNode):
    """Node `(?>X)`: from each start, its only end is the first that backtracking finds."""

    def __init__(self, node: PatternNode) -> None:
        self._node = node

    def _ends(self, match: PatternMatch, starts: Positions) -> Positions:
        ends = (self._end(match, start) for start in _each(starts))
        return match.positions(end for end in ends if end is not None)

    def _starts(self, match: PatternMatch, ends: Positions) -> Positions:
        return match.positions(
            start
            for start in _each(match.everywhere)
            if self._first_end(match, start, ends) is not None
        )

    def _first_end(self, match: PatternMatch, start: int, allowed: Positions) -> int | None:
        end = self._end(match, start)
        return end if end is not None and allowed >> end & 1 else None

    def _end(self, match: PatternMatch, start: int) -> int | None:
        match.take_step()
        key = self, start
        if key not in match.atomic_ends:
            match.atomic_ends[key] = self._node.first_end(match, start, match.everywhere)
        return match.atomic_ends[key]


def _each(positions: Positions) -> Iterator[int]:
    """Yield the positions of a set in their order."""
    while positions:
        lowest = positions & -positions
        yield lowest.bit_length() - 1
        positions ^= lowest
