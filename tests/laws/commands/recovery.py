"""Laws after every crash, for any command: nothing is half done, nothing is done twice."""

from collections.abc import Iterator

import msgspec

from controlplane.controller.admission import CommandAnswer
from controlplane.core.commands import RestartConnector, RestartTask
from controlplane.core.plan import Outcome, Rejected
from tests.laws.commands.life import CommandRun, Life

EVENTS = (RestartConnector, RestartTask)


def nothing_is_unfinished(life: Life) -> Iterator[None]:
    """Every command has ended once the next process has started."""
    for died in life.journal.died:
        assert not any(trace.unfinished for trace in died.back.commands.values())
        yield
    for crash in life.crashes:
        assert not crash.unfinished
        yield


def all_or_nothing(life: Life) -> Iterator[None]:
    """A command that had begun is completed by the next process.

    The exceptions are refused commands, and restarts, which are never repeated.
    """
    for crash in life.crashes:
        if isinstance(crash.act.ended, Outcome) and not isinstance(crash.act.command, EVENTS):
            assert crash.back.visible_facts(crash.act.name) == crash.act.after.visible_facts(
                crash.act.name
            )
            yield


def same_key_same_answer(life: Life) -> Iterator[None]:
    """Repeating the same key gives the answer of the first request, and changes nothing.

    The answer to a restart may differ after a crash, because restarts are never repeated.
    """
    for crash in life.crashes:
        if isinstance(crash.act.ended, Outcome) and not isinstance(crash.act.command, EVENTS):
            assert _stored(crash.same, crash.act) == _stored(crash.act.ended, crash.act)
            assert crash.settled.visible_facts(crash.act.name) == crash.back.visible_facts(
                crash.act.name
            )
            yield
    for act in life.acts:
        answers = [answered.answer for answered in act.answered if answered.answer is not None]
        if len(answers) > 1 and not isinstance(answers[0], Rejected):
            assert len({_stored(answer, act) for answer in answers}) == 1
            yield


def what_was_answered_is_there(life: Life) -> Iterator[None]:
    """A command that was answered with success is in the log, finished."""
    for act in life.acts:
        for answered in act.answered:
            if isinstance(answered.answer, Outcome):
                assert act.ended is not None
                assert _stored(answered.answer, act) == _stored(act.ended, act)
                yield


def _stored(answer: CommandAnswer, act: CommandRun) -> bytes:
    """The answer as stored: JSON, which has no tuples.

    Without an idempotency key, the log lacks the answer's release, connector and status.
    """
    if isinstance(answer, Outcome) and not act.keyed:
        answer = msgspec.structs.replace(answer, release=None, connector=None, status=None)
    return msgspec.json.encode(answer)
