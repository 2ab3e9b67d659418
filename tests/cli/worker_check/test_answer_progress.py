"""Agreements count at once; differences count once log and worker have stood still."""

from controlplane.cli.verify.worker_check.answer_progress import (
    Agreement,
    AnswerProgress,
    ComparedAnswers,
)
from controlplane.scenario.story import RecordedAnswer

SETTLE_S = 5.0


def compared_answers(worker: object, before: object, after: object) -> ComparedAnswers:
    """Answers of one round, all with status 200."""
    return ComparedAnswers(*(RecordedAnswer(200, answer) for answer in (worker, before, after)))


def standing(*rounds: tuple[float, ComparedAnswers]) -> Agreement:
    """Standing of the comparison after rounds at these times."""
    progress = AnswerProgress()
    for now_s, answers in rounds:
        progress.take(answers, now_s, SETTLE_S)
    return progress.standing


def test_agreement_counts_at_once() -> None:
    """The worker may answer as the log did before or after the request."""
    assert standing((0, compared_answers(1, 1, 2))) is Agreement.AGREES
    assert standing((0, compared_answers(2, 1, 2))) is Agreement.AGREES
    assert standing((0, compared_answers([1, 2], [2, 1], [2, 1]))) is Agreement.AGREES


def test_a_difference_counts_after_a_while_without_changes() -> None:
    """A difference counts after `settle_s` without a change on either side."""
    same = compared_answers(1, 2, 2)
    assert standing((0, same)) is Agreement.MOVES
    assert standing((0, same), (4.9, same)) is Agreement.MOVES
    assert standing((0, same), (3, same), (5, same)) is Agreement.DIFFERS


def test_a_change_on_either_side_restarts_the_wait() -> None:
    """A different answer restarts the wait, and so does a log that grows in or between rounds."""
    same = compared_answers(1, 2, 2)
    for moved in (compared_answers(3, 2, 2), compared_answers(1, 2, 4), compared_answers(1, 4, 4)):
        assert standing((0, same), (3, moved), (6, moved)) is Agreement.MOVES
    assert (
        standing((0, same), (3, compared_answers(3, 2, 2)), (9, compared_answers(3, 2, 2)))
        is Agreement.DIFFERS
    )
    assert (
        standing((0, same), (6, compared_answers(1, 2, 4)), (60, compared_answers(1, 4, 5)))
        is Agreement.MOVES
    )


def test_a_difference_may_disappear() -> None:
    """A later agreement removes the difference of a slow worker."""
    same = compared_answers(1, 2, 2)
    assert standing((0, same), (6, same)) is Agreement.DIFFERS
    assert standing((0, same), (6, same), (7, compared_answers(2, 2, 2))) is Agreement.AGREES


def test_a_missing_answer_restarts_the_wait() -> None:
    """The state of a silent worker is unknown."""
    progress, same = AnswerProgress(), compared_answers(1, 2, 2)
    progress.take(same, 0, SETTLE_S)
    progress.fall_silent("starts", is_gone=False)
    assert (progress.standing, progress.is_decided) == (Agreement.SILENT, False)
    progress.take(same, 60, SETTLE_S)
    assert (progress.standing, progress.reason) == (Agreement.MOVES, "")


def test_error_pages_are_compared_by_status() -> None:
    """Jetty's error pages have no JSON; a success without JSON is no answer of Connect."""
    page, error = RecordedAnswer(400, None), RecordedAnswer(400, {"error_code": 400})
    assert ComparedAnswers(page, error, error).agree
    assert not ComparedAnswers(page, RecordedAnswer(404, None), RecordedAnswer(404, None)).agree
    assert not compared_answers(None, {}, {}).agree
