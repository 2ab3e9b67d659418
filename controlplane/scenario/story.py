"""Stories of recorded clusters, and the comparison of their answers with those of the log.

A story (`NAME.story.jsonl`, see `tests/histories/README.md`) has the answers of real workers, with
the end offsets that each worker had read. `verify` folds the log up to these offsets as a worker of
that release. It repeats the requests on the fold, and compares the answers as JSON.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from controlplane.core.entry import Entry, Position
from controlplane.core.fold import fold
from controlplane.core.order import before, in_order
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import KIP, Profile, check_support
from controlplane.core.state import ClusterState, Topics
from controlplane.rest.endpoints.pure_requests import answer, endpoint_parts
from controlplane.rest.endpoints.reads import ReadInputs
from controlplane.scenario.json_equality import equal_json


class BadStory(ValueError):
    """The file is no story. The message has the line and the problem."""


class RecordedAnswer(msgspec.Struct, frozen=True):
    """Answer recorded from a worker, or computed by the fold for comparison."""

    status: int
    answer: Any


class StoryStep(msgspec.Struct, frozen=True):
    """Step of a story.

    Only `observe` steps have `answers`, by raw path; only `request` steps have the fields from
    `method` on. `before` has the end offsets when the request was sent, `positions` those after all
    its effects.
    """

    n: int
    kind: str
    positions: dict[str, list[int]] = {}
    worker: str | None = None
    release: str | None = None
    at_ms: int = 0
    answers: dict[str, RecordedAnswer] = {}
    method: str = ""
    path: str = ""
    body: Any = None
    before: dict[str, list[int]] = {}
    status: int = 0
    answer: Any = None
    location: str | None = None


class AnswerDifference(NamedTuple):
    """Recorded answer that differs from the fold's answer.

    `cause`: record that is the likely cause of the difference (`explain`); None: unknown.
    """

    step: int
    release: str
    path: str
    recorded: RecordedAnswer
    folded: RecordedAnswer
    cause: Position | None


class StoryVerdict(msgspec.Struct):
    """Verdict on a story: answers compared, differences, answers that no log determines."""

    compared: int
    differences: list[AnswerDifference]
    beyond: int
    """Number of answers with a consumer group's offsets, which no log of Connect has."""


def read_story(path: Path) -> list[StoryStep]:
    """The steps of a story file. Raises `BadStory`."""
    decoder = msgspec.json.Decoder(StoryStep)
    lines = path.read_bytes().splitlines()
    steps = []
    for number, line in enumerate(lines[1:], start=2):
        try:
            steps.append(decoder.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadStory(
                f"{path}:{number}: not a step of a story ({error}): {_EXPECTED}"
            ) from None
        except RecursionError:
            raise BadStory(f"{path}:{number}: {_TOO_DEEP}") from None
    if not steps:
        raise BadStory(f"{path} holds no steps: {_EXPECTED}")
    return steps


_EXPECTED = "give the .story.jsonl of a history"

_TOO_DEEP = "nested too deeply to be read: take this step out, its answers cannot be compared"


class Verifier:
    """Compares the observations of one story with the fold of one log."""

    def __init__(
        self,
        entries: Sequence[Entry],
        plugins: Plugins,
        *,
        topics: Topics | None = None,
        exactly_once: frozenset[str] = frozenset(),
    ) -> None:
        self._entries = in_order(entries)
        self._plugins = plugins
        self._topics = topics or Topics()
        self._exactly_once = exactly_once
        """Names of the workers that run with exactly-once support; `*` means all."""

    def verify(self, steps: Sequence[StoryStep]) -> StoryVerdict:
        """Compare the answers of every `observe` step with those of the fold."""
        verdict = StoryVerdict(0, [], 0)
        for step in steps:
            if step.kind == "observe":
                self._observe(step, verdict)
        return verdict

    def _observe(self, step: StoryStep, verdict: StoryVerdict) -> None:
        state = self._state(step)
        for path, recorded in step.answers.items():
            if self._beyond(state, path, recorded):
                verdict.beyond += 1
                continue
            verdict.compared += 1
            folded = RecordedAnswer(*answer(ReadInputs(state, self._plugins), path)[:2])
            if not same(recorded, folded):
                cause = explain(state, path)
                verdict.differences.append(
                    AnswerDifference(step.n, step.release or "", path, recorded, folded, cause)
                )

    def _state(self, step: StoryStep) -> ClusterState:
        entries = before(self._entries, step.positions)
        exactly_once = bool(self._exactly_once & {"*", step.worker})
        profile = Profile.of(step.release or KIP)
        check_support(profile, exactly_once=exactly_once)
        return fold(entries, profile, topics=self._topics, exactly_once=exactly_once, trace=True)

    def _beyond(self, state: ClusterState, path: str, recorded: RecordedAnswer) -> bool:
        """True if an answer has a consumer group's offsets, which no log of Connect holds."""
        connector, rest = endpoint_parts(path)
        if connector is None or rest != ("offsets",) or not isinstance(recorded.answer, dict):
            return False
        config = state.config.connectors.get(connector, {})
        plugin_type = self._plugins.type_of(config.get("connector.class"), state.profile)
        return plugin_type == "sink" and "offsets" in recorded.answer


def same(recorded: RecordedAnswer, folded: RecordedAnswer) -> bool:
    """True if two answers are equal as JSON, without the order of lists."""
    return recorded.status == folded.status and equal_json(recorded.answer, folded.answer)


def explain(state: ClusterState, path: str) -> Position | None:
    """Likely cause of the answer to a path: the record with the greatest offset that fits.

    Records fit if their key contains the connector's name. The endpoint's topic is preferred. For a
    path without a name all records fit.
    """
    connector, rest = endpoint_parts(path)
    if connector is None:
        return max(state.causes.values(), key=lambda place: place.offset, default=None)
    name = connector.encode("utf-8", "surrogatepass")
    places = [place for (_, key), place in state.causes.items() if key and name in key]
    topic = _topic_of(rest, state.topics)
    candidates = [place for place in places if place.topic == topic] or places
    return max(candidates, key=lambda place: place.offset, default=None)


def _topic_of(rest: tuple[str, ...], topics: Topics) -> str:
    if rest[-1:] in (("status",), ("topics",)):
        return topics.status
    return topics.offsets if rest == ("offsets",) else topics.config
