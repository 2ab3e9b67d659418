"""The laws of commands by the names that they have in the specification."""

from collections.abc import Callable, Iterator, Mapping

from tests.laws.commands import all_records, config_changes, creation, lifecycle, offsets, recovery
from tests.laws.commands.life import Life

Law = Callable[[Life], Iterator[None]]
"""Checks every case in a life, asserts, and yields once per case."""

LATER = frozenset(
    {"F1", "F2", "F3", "F4", "F5", "O2", "O8", "R2", "R5", "P4", "D5", "K1", "A1", "A2"}
)
"""Rules that need running tasks or Kafka's producers, with the tests that prove them."""

LAWS: Mapping[str, Law] = {
    name.upper(): law
    for module in (creation, config_changes, lifecycle, offsets, all_records)
    for name, law in vars(module).items()
    if name[:1] in set("cnupstdroag") and name[1:].isdigit()
}
"""Invariants by their name, in capital letters."""

RECOVERY: Mapping[str, Law] = {
    law.__name__: law
    for law in (
        recovery.nothing_is_unfinished,
        recovery.all_or_nothing,
        recovery.same_key_same_answer,
        recovery.what_was_answered_is_there,
    )
}
"""Laws about crashes."""


class BrokenLaw(AssertionError):
    """Raised if a law does not hold; it names the law."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name, self.why = name, why


def judge(life: Life) -> dict[str, int]:
    """Check a life under every law; return the number of cases of each law."""
    return {name: _judged(name, law, life) for name, law in {**LAWS, **RECOVERY}.items()}


def _judged(name: str, law: Law, life: Life) -> int:
    try:
        return sum(1 for _ in law(life))
    except AssertionError as broken:
        raise BrokenLaw(name, f"{law.__doc__}\n{broken}") from broken
