"""Explanations of differences: the record after which a worker's state differs from its log.

The kinds of causes, in the order in which they are tried:

- The order between partitions: a task status and the tombstone of its connector lie in different
  partitions. Workers have read them in different orders. The same holds for an offset whose key
  lies in two partitions.
- A commit of tasks that lies before its connector's config, because compaction has removed the
  older config. A worker that starts now drops the tasks. A worker that read the log before
  compaction keeps them.
- A record that the worker has not applied: the worker answers as the log did before this record. If
  the worker threw at an earlier record, it has lost the rest of that batch.
- A record that the log's readers ignore.
- Otherwise the last record about the part that differs.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from controlplane.cli.verify.difference_evidence import Evidence, listed_offsets
from controlplane.cli.verify.worker_check.answer_progress import FIRST_ERROR, ComparedAnswers, equal
from controlplane.cli.verify.worker_check.comparison_rounds import (
    CheckedLog,
    task_ids,
)
from controlplane.core import views
from controlplane.core.codec.offsets import decode_offset, decode_partition, frozen
from controlplane.core.entry import Entry
from controlplane.core.fold import FateKind, Fold, RecordFate
from controlplane.core.java import json_codec
from controlplane.core.records import Invalid
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.core.text import record_text
from controlplane.core.views.hazards import TaskRivals, key_rivals, task_rivals
from controlplane.rest.endpoints.pure_requests import base_path, endpoint_parts
from controlplane.rest.errors import NOT_FOUND, OK
from controlplane.scenario.json_equality import equal_json, unshared
from controlplane.scenario.story import AnswerDifference, RecordedAnswer, StoryStep

BATCH_RECORDS = 500
"""Greatest distance in offsets at which a lost batch explains a missing record: the default of
`max.poll.records`."""

_THROWS = (FateKind.LOSES_BATCH, FateKind.POISON)


class Explanation(NamedTuple):
    """Record that explains a difference, with the reason in words."""

    record: Entry | None
    """None: the log has no such record."""
    reason: str
    order_edge: bool = False
    """True if the worker has read records of two partitions in another order than the fold. Edge 20
    of docs/releases.md is an example."""


class DifferingPart(NamedTuple):
    """An endpoint of one connector, with the differing answers of worker and log.

    A worker and its log may have been compared by their lists of connectors. `worker` and `log` are
    then not these lists. Each is made from what its list has about `connector` (`differing_part`).
    """

    connector: str
    path: str
    worker: RecordedAnswer
    log: RecordedAnswer
    is_listing: bool = False
    """True if only the presence of the connector is known: status 200 or 404."""


class _OffsetTally:
    """Collects the source partitions whose last record contradicts an answer with offsets.

    The comparison of whole answers after each record would take hours for 10,000 offsets.
    """

    def __init__(self, answer: RecordedAnswer, connector: str, profile: Profile) -> None:
        self._connector = connector
        self._profile = profile
        listed = listed_offsets(answer)
        self._expected = {frozen(each.get("partition")): each.get("offset") for each in listed}
        self.contradictions = {
            partition for partition, offset in self._expected.items() if offset is not None
        }

    def take(self, entry: Entry) -> None:
        """Compare an accepted record with the answer.

        Records of other connectors or with unreadable keys are skipped. An unreadable offset counts
        as no contradiction.
        """
        subject = decode_partition(entry.key, self._profile)
        if isinstance(subject, Invalid) or subject.connector != self._connector:
            return
        offset = decode_offset(entry.value, self._profile)
        partition = frozen(subject.partition)
        expected = self._expected.get(partition)
        # A worker may serialise a partition again to look up its offset. If these bytes differ from
        # the record's key, it finds no offset and answers null. So no record contradicts a null.
        is_null = partition in self._expected and expected is None
        self.contradictions.discard(partition)
        if not (is_null or isinstance(offset, Invalid)) and frozen(offset) != frozen(expected):
            self.contradictions.add(partition)


class _Course:
    """Fold of the records about one connector.

    Notes the records that may explain why the worker's answer differs.
    """

    def __init__(
        self,
        connector: str,
        matches: Callable[[ClusterState], bool],
        fold: Fold,
        tally: _OffsetTally | None,
    ) -> None:
        """`matches` is True for a state that gives the worker's answer.

        `tally` is of that answer; None: the answer has no offsets.
        """
        self._connector = connector
        self._name = connector.encode("utf-8", "surrogatepass")
        self._quoted_name = json_codec.encode(connector)
        """The name in keys of offsets, which may have escapes."""
        self._matches = matches
        self._fold = fold
        self._tally = tally
        self._matched = matches(fold.snapshot())
        self.missed: Entry | None = None
        """Record from which on the fold no longer gives the worker's answer. None if the fold gives
        that answer at the end, or never gave it."""
        self.orphan: Entry | None = None
        """Last task commit, if the connector has no config at that point of the log. A worker that
        starts now drops the tasks of this commit. Always None for a release that keeps them: its
        profile lacks `commit_needs_config`."""
        self.ignored: tuple[Entry, RecordFate] | None = None
        """Last record about the connector that is not accepted, with its fate."""

    def take_all(self, entries: Iterable[Entry]) -> None:
        """Fold the records about the connector: the others do not affect its answers."""
        for entry in entries:
            if entry.key is None:
                continue
            if self._name in entry.key or self._quoted_name in entry.key:
                self._take(entry)

    def _take(self, entry: Entry) -> None:
        if entry.key == b"commit-" + self._name:
            self.orphan = entry if self._is_dropped() else None
        fate = self._fold.apply(entry)
        if fate.kind is not FateKind.ACCEPTED:
            self.ignored = entry, fate
        elif self._tally is not None:
            self._tally.take(entry)
        contradicted = self._tally is not None and self._tally.contradictions
        matches = not contradicted and self._matches(self._fold.snapshot())
        if matches:
            self.missed = None
        elif self._matched:
            self.missed = entry
        self._matched = matches

    def _is_dropped(self) -> bool:
        """True if the fold drops a commit at this point, because there is no connector config."""
        configured = self._fold.config.of(self._connector).connectors is not None
        return self._fold.profile.commit_needs_config and not configured


class Explainer:
    """Searches the records of a log, read as by a worker of one release, for explanations."""

    def __init__(
        self,
        entries: Sequence[Entry],
        topics: Topics,
        profile: Profile,
        log: CheckedLog,
        *,
        exactly_once: bool,
    ) -> None:
        """`entries` are sorted by `in_order`.

        They include offset records only of the connectors whose offsets differ.
        """
        self._entries = entries
        self._topics = topics
        self._profile = profile
        self._log = log
        self._exactly_once = exactly_once
        statuses = (entry for entry in entries if entry.topic == topics.status)
        self._rivals: Mapping[tuple[str, int], TaskRivals] = {
            (rivalry.connector, rivalry.task): rivalry for rivalry in task_rivals(statuses, profile)
        }
        self._by_position = {entry.position: entry for entry in entries}
        fold = self._fold()
        self._throwers = [entry for entry in entries if fold.apply(entry).kind in _THROWS]

    def explain(self, path: str, answers: ComparedAnswers) -> Explanation:
        """Explain the difference between a worker's answer and that of the log."""
        part = differing_part(path, answers.worker, answers.after)
        if part is None:
            return Explanation(None, "the worker gives no list of connectors")
        return (
            self._task_order(part)
            or self._offset_order(part)
            or self._by_course(part)
            or self._last_record(part)
        )

    def _task_order(self, part: DifferingPart) -> Explanation | None:
        for task in differing_tasks(part):
            rivals = self._rivals.get((part.connector, task))
            if rivals is not None:
                status = record_text.place(rivals.status, self._topics)
                return Explanation(
                    self._by_position[rivals.tombstone],
                    f"order between partitions: only a worker that read {status} after this "
                    f"tombstone shows task {task}",
                    order_edge=True,
                )
        return None

    def _offset_order(self, part: DifferingPart) -> Explanation | None:
        if endpoint_parts(part.path).rest != ("offsets",):
            return None
        partitions = [
            element.get("partition")
            for element in unshared(listed_offsets(part.worker), listed_offsets(part.log))
        ]
        others = (self._topics.config, self._topics.status)
        for *earlier, entry in key_rivals(
            entry for entry in self._entries if entry.topic not in others
        ):
            subject = decode_partition(entry.key, self._profile)
            if isinstance(subject, Invalid) or subject.connector != part.connector:
                continue
            if any(equal_json(subject.partition, partition) for partition in partitions):
                rival_places = ", ".join(
                    record_text.place(rival.position, self._topics) for rival in earlier
                )
                return Explanation(
                    entry,
                    f"order between partitions: the same key is at {rival_places}",
                    order_edge=True,
                )
        return None

    def _by_course(self, part: DifferingPart) -> Explanation | None:
        course = self._course(part)
        if course.orphan is not None and _concerns_tasks(part):
            return Explanation(
                course.orphan,
                "this commit lies before its connector's config: a worker that starts now drops "
                "the tasks. A worker that read the log before compaction keeps them",
            )
        if course.missed is not None:
            return self._missed(course.missed)
        if course.ignored is not None:
            entry, fate = course.ignored
            return Explanation(entry, f"readers of the log ignore this record: {fate.reason}")
        return None

    def _missed(self, missed: Entry) -> Explanation:
        thrower = self._thrower_before(missed)
        if thrower is None:
            return Explanation(missed, "the worker answers as before this record")
        place = record_text.place(missed.position, self._topics)
        return Explanation(
            thrower,
            f"a worker throws at this record and loses what follows: it has not taken {place}",
        )

    def _thrower_before(self, missed: Entry) -> Entry | None:
        """The last record that throws, if it explains why a worker has not taken a later one."""
        for thrower in reversed(self._throwers):
            earlier = (thrower.timestamp, thrower.offset) < (missed.timestamp, missed.offset)
            if thrower.topic == missed.topic and earlier:
                # The worker loses the rest of the batch. If its log thread ends, it loses all later
                # records.
                near = missed.offset - thrower.offset <= BATCH_RECORDS
                return thrower if near or not self._profile.log_thread_survives else None
        return None

    def _course(self, part: DifferingPart) -> _Course:
        has_offsets = endpoint_parts(part.path).rest == ("offsets",)
        tally = _OffsetTally(part.worker, part.connector, self._profile) if has_offsets else None
        course = _Course(part.connector, self._matcher(part), self._fold(), tally)
        course.take_all(self._entries)
        return course

    def _fold(self) -> Fold:
        return Fold(self._profile, topics=self._topics, exactly_once=self._exactly_once)

    def _matcher(self, part: DifferingPart) -> Callable[[ClusterState], bool]:
        """Function that is True for a state with the worker's answer to a part."""
        if part.is_listing:
            listed = part.worker.status == OK
            return lambda state: (part.connector in views.connectors(state)) is listed

        def matches(state: ClusterState) -> bool:
            folded, worker = self._log.answer(state, part.path), part.worker
            if worker.status >= FIRST_ERROR:
                return folded.status == worker.status  # messages of errors may differ
            return equal(folded, worker)

        return matches

    def _last_record(self, part: DifferingPart) -> Explanation:
        ends: dict[str, list[int]] = {}
        for entry in self._entries:
            parts = ends.setdefault(entry.topic, [])
            parts.extend([0] * (entry.partition + 1 - len(parts)))
            parts[entry.partition] = entry.offset + 1
        evidence = Evidence(self._topics, self._by_position, [StoryStep(1, "observe", ends)])
        difference = AnswerDifference(
            1, self._profile.release, part.path, part.worker, part.log, None
        )
        record = evidence.cause(difference)
        if record is None:
            return Explanation(
                None,
                "the log has no record about the part that differs; compaction may have removed it",
            )
        return Explanation(
            record,
            "the last record about the part that differs; the worker may know records that "
            "compaction removed",
        )


# --- parts of answers -------------------------------------------------------------------------


def differing_part(path: str, worker: RecordedAnswer, log: RecordedAnswer) -> DifferingPart | None:
    """The whole answer if it is about one connector; of a list, the first part that differs.

    None: the answers are no lists of one kind, or do not differ in a connector.
    """
    name = endpoint_parts(path).connector
    if name is not None:
        return DifferingPart(name, path, worker, log)
    if isinstance(worker.answer, dict) and isinstance(log.answer, dict):
        return _expanded_part(worker.answer, log.answer)
    if isinstance(worker.answer, list) and isinstance(log.answer, list):
        return _listed_part(worker.answer, log.answer)
    return None


def _listed_part(worker: Sequence[Any], log: Sequence[Any]) -> DifferingPart | None:
    """The first connector that only one of two lists has."""
    for connector in [name for name in unshared(worker, log) if isinstance(name, str)]:
        of_worker, of_log = (
            RecordedAnswer(OK if connector in names else NOT_FOUND, None) for names in (worker, log)
        )
        return DifferingPart(connector, base_path(connector), of_worker, of_log, is_listing=True)
    return None


def _expanded_part(worker: Mapping[str, Any], log: Mapping[str, Any]) -> DifferingPart | None:
    """The first differing part of an expanded list; a part that one list lacks counts as a 404."""
    for name in sorted({*worker, *log}):
        for part, ending in (("status", "/status"), ("info", "")):
            of_worker, of_log = (_member(_member(side, name), part) for side in (worker, log))
            if not equal_json(of_worker, of_log):
                path = base_path(name) + ending
                return DifferingPart(name, path, _answer_of(of_worker), _answer_of(of_log))
    return None


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _answer_of(part: Any) -> RecordedAnswer:
    return RecordedAnswer(NOT_FOUND, None) if part is None else RecordedAnswer(OK, part)


def differing_tasks(part: DifferingPart) -> list[int]:
    """Tasks whose status is in only one of the two answers."""
    match endpoint_parts(part.path).rest:
        case ("status",):
            theirs, ours = (set(task_ids(side)) for side in (part.worker, part.log))
            return sorted(theirs ^ ours)
        case ("tasks", task, "status") if part.worker.status != part.log.status:
            return [int(task)]
    return []


def _concerns_tasks(part: DifferingPart) -> bool:
    """True if the endpoint shows the tasks that a commit has made."""
    return endpoint_parts(part.path).rest in ((), ("tasks",), ("tasks-config",))


def is_needed(
    entry: Entry, topics: Topics, profile: Profile, names: Collection[str | None]
) -> bool:
    """True for a record that explanations read: configs, statuses, and offsets of `names`."""
    if entry.topic in (topics.config, topics.status):
        return True
    subject = decode_partition(entry.key, profile)
    return not isinstance(subject, Invalid) and subject.connector in names
