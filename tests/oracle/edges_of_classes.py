"""Edge cases that no store shows, as questions to other classes of Kafka (`Writing.java`)."""

from collections.abc import Callable
from itertools import product, starmap
from typing import Any, NamedTuple

from controlplane.core import views
from controlplane.core.fold import Fold, fold
from controlplane.core.releases.profiles import Profile
from tests.core.logs import config, offsets
from tests.oracle.case import OWN, TOPICS

WrittenAnswers = dict[str, Any]


class KafkaQuestion(NamedTuple):
    """A question that no log answers, with functions that look up Kafka's answer and ours."""

    log: str
    """Input of the question, in words."""
    kafka: Callable[[WrittenAnswers], str | None]
    """None where the release has no such class, or cannot be asked without a broker."""
    ours: Callable[[Profile], str] | None = None
    """None if no code of ours writes it."""


def of_written(question: str, detail: str | None = None) -> Callable[[WrittenAnswers], str | None]:
    """Look up an answer in `writing_answers`."""

    def look(answers: WrittenAnswers) -> str | None:
        answer = answers.get(question)
        return answer if answer is None or detail is None else answer[detail]

    return look


# --- 27: the connector's own offsets topic ------------------------------------------------------

CONFIGS = {"no topic": "{}", "a topic": f'{{"offsets.storage.topic":"{OWN}"}}'}
"""Configs of the connector that owns the offset, with and without its own topic."""


def _fallback(owns: str) -> KafkaQuestion:
    def ours(profile: Profile) -> str:
        owner = ("connector-a", f'{{"properties":{CONFIGS[owns]}}}')
        log = [*config(owner), *offsets(('["a",{"p":1}]', '{"pos":1}'))]
        offset_views = views.source_offsets(fold(log, profile), "a")
        return "the worker's offset" if any(view.offset for view in offset_views) else "no offset"

    says = f"the worker's topic holds an offset, the connector has {owns} of its own"
    return KafkaQuestion(says, of_written("fallback", owns), ours)


FALLBACK = tuple(map(_fallback, CONFIGS))

# --- 28: the isolation level of the consumer of each topic --------------------------------------

LEVELS = {"null": "read_uncommitted", "read_committed": "read_committed"}
"""Isolation level by the consumer's setting; without one it is Kafka's default."""


def _isolation(topic: str, support: str) -> KafkaQuestion:
    def kafka(answers: WrittenAnswers) -> str | None:
        level = of_written("isolation", f"{topic} {support}")(answers)
        return None if level is None else LEVELS[level]

    def ours(profile: Profile) -> str:
        worker = Fold(profile, exactly_once=support == "enabled")
        is_seen = worker.sees_aborted(getattr(TOPICS, topic))
        return "read_uncommitted" if is_seen else "read_committed"

    return KafkaQuestion(f"{topic} topic, `exactly.once.source.support={support}`", kafka, ours)


ISOLATION = tuple(
    starmap(
        _isolation, product(("config", "offsets", "status"), ("disabled", "preparing", "enabled"))
    )
)

# --- 30: who may write a status with `putSafe` --------------------------------------------------

CACHED = {
    "nothing": "no status is cached",
    "own, of generation 3": "the cached status is its own, of generation 3",
    "another's, of generation 1": "the cached status is another worker's, of generation 1",
    "another's, of generation 2": "the cached status is another worker's, of generation 2",
    "another's, of generation 3": "the cached status is another worker's, of generation 3",
}
"""Cached statuses by their names in Kafka's answers."""
SAFELY = tuple(
    KafkaQuestion(f"a writer of generation 2; {cached}", of_written("safely", name))
    for name, cached in CACHED.items()
)
