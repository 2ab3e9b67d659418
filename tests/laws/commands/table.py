"""The laws of commands by their labels: C1 is the function `c1`, and its docstring the law."""

from collections.abc import Callable, Iterator, Mapping

from tests.laws.commands import all_records, config_changes, creation, lifecycle, offsets, recovery
from tests.laws.commands.life import Life

Law = Callable[[Life], Iterator[None]]
"""Checks every case in a life, asserts, and yields once per case."""

LATER: Mapping[str, str] = {
    "F1": "The count of fenced producers is in the log before a new task uses its producer.",
    "F2": "The count is written only after all old producers are fenced.",
    "F3": "Tasks of one generation at most can commit transactions.",
    "F4": "A deletion and a new creation keep the count.",
    "F5": "A leader that another one has replaced appends nothing.",
    "O2": "With exactly-once support, readers see all offsets of a request or none.",
    "O8": "A fenced task commits nothing after the command's transaction.",
    "R2": "A repeated restart does no harm.",
    "R5": "RUNNING, FAILED or UNASSIGNED follows each RESTARTING.",
    "P4": "After a crash, the owner publishes the tasks that its connector generates.",
    "D5": "In time, statuses and active topics of a deleted connector are removed.",
    "K1": "Workers that have read the log use its newest session key.",
    "A1": "Only topics in use since their last tombstone are active.",
    "A2": "A topic in use after its tombstone was read is active again.",
}
"""Labels of rules that need running tasks or Kafka's producers: other tests check them."""

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
