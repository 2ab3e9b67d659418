"""Text of a plan: its records, outside actions and waits, in order.

    2 records, in 2 steps
    tasks  config-0  commit-orders        {"tasks":0}  (read back)
    state  config-0  target-state-orders  {"state":"PAUSED","state.v2":"STOPPED"}  (read back)
    commit point: state

The text has no secrets and is safe to print, whatever the source of the plan. Long values are cut;
the plan has their bytes.
"""

from collections.abc import Iterator
from typing import NamedTuple

from controlplane.core.plan import (
    AlterGroup,
    AnyAction,
    DeleteGroup,
    Draft,
    FenceProducers,
    Plan,
    Rejected,
    RestartInstances,
    Step,
    WriteOffsets,
)
from controlplane.core.state import ClusterState
from controlplane.core.text.redaction import redacted_refusal, redacted_text
from controlplane.core.text.safe_text import bytes_text, count, short
from controlplane.core.text.value_text import TOMBSTONE, redacted_json
from controlplane.core.topics.partitioner import draft_partition

OUTSIDE = "-"
"""Text in the topic column of an action."""


class PlanLine(NamedTuple):
    """One record or action as cells; empty cells have nothing to show."""

    step: str
    """Name of the step, on its first line only; in parentheses if it undoes another step."""
    topic: str
    partition: str
    key: str
    value: str
    """Value of the record, or the action."""
    then: str
    """Condition for the next step to begin, on the step's last line only.

    For a step that undoes another: the condition of the undo, on its first line.
    """


def plan_text(plan: Plan | Rejected, state: ClusterState) -> str:
    """Format a plan for the log of `state`, as lines; a refusal as one line."""
    if isinstance(plan, Rejected):
        return f"refused: {short(redacted_refusal(plan.sentence))}"
    text_lines = [amount(plan), *_aligned(list(lines(plan, state)))]
    if plan.steps and plan.commit_point is not None:
        text_lines.append(f"commit point: {short(plan.commit_point)}")
    text_lines += (f"assumed: {_public_text(assumption)}" for assumption in plan.assumed)
    return "\n".join(text_lines)


def amount(plan: Plan) -> str:
    """Size of a plan: `2 records and 1 action outside of the log, in 3 steps`."""
    records = sum(len(step.records) for step in plan.steps)
    actions = sum(step.action is not None for step in plan.steps)
    parts = [count(records, "record")] if records else []
    parts += [f"{count(actions, 'action')} outside of the log"] if actions else []
    if not parts:
        return "nothing has to be done"
    return f"{' and '.join(parts)}, in {count(len(plan.steps), 'step')}"


def lines(plan: Plan, state: ClusterState) -> Iterator[PlanLine]:
    """One line per record or action, in order; `state` determines the partition of each record."""
    for step in plan.steps:
        yield from _lines_of_step(step, state)


def _aligned(plan_lines: list[PlanLine]) -> Iterator[str]:
    """Format lines with aligned columns; values and conditions are too long for columns."""
    rows = [(line.step, _place(line), line.key) for line in plan_lines]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for line, row in zip(plan_lines, rows, strict=True):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        then = f"  ({line.then})" if line.then else ""
        yield f"{'  '.join(cells)}  {line.value}{then}"


def _place(line: PlanLine) -> str:
    return f"{line.topic}-{line.partition}" if line.partition else line.topic


# --- lines --------------------------------------------------------------------------------------


def _lines_of_step(step: Step, state: ClusterState) -> Iterator[PlanLine]:
    """Lines of a step, then those of its undo.

    The first line has the step's name. The last one has the condition for the next step. The first
    line of the undo has the condition of the undo.
    """
    plan_lines = [_record_line(draft, state) for draft in step.records]
    if step.action is not None:
        plan_lines.append(PlanLine("", OUTSIDE, "", "", short(_action_text(step.action)), ""))
    plan_lines[0] = plan_lines[0]._replace(step=short(step.name))
    plan_lines[-1] = plan_lines[-1]._replace(then=", ".join(_conditions(step, state)))
    yield from plan_lines
    if step.undo is not None:
        for line in _lines_of_step(step.undo, state):
            named = f"({line.step})" if line.step else ""
            yield line._replace(step=named, then="if a step fails" if named else "")


def _record_line(draft: Draft, state: ClusterState) -> PlanLine:
    topic, partition = short(state.topics.short(draft.topic)), draft_partition(draft, state)
    return PlanLine("", topic, str(partition), _key(draft.key), _value(draft.value), "")


def _key(raw: bytes) -> str:
    return _public_text(bytes_text(raw))


def _public_text(text: str) -> str:
    """A text without secrets, made safe and short."""
    return short(redacted_text(text))


def _value(raw: bytes | None) -> str:
    """Text of a record's value, unchanged unless it may hold a secret."""
    return TOMBSTONE if raw is None else short(redacted_json(bytes_text(raw)))


def _conditions(step: Step, state: ClusterState) -> Iterator[str]:
    """Conditions for the next step to begin."""
    if step.read_back and {*step.read_back} == {draft.topic for draft in step.records}:
        yield "read back"
    elif step.read_back:
        yield short(f"read {' and '.join(map(state.topics.short, step.read_back))}")
    if step.best_effort:
        yield "go on even if it fails"


def _action_text(action: AnyAction) -> str:
    """Text of an action without secrets. Names are redacted one by one: some are free text."""
    match action:
        case AlterGroup(group=group, put=put, remove=remove):
            set_ = [
                f"{_public_text(topic)}-{partition} to {offset}" for topic, partition, offset in put
            ]
            removed = [f"{_public_text(topic)}-{partition}" for topic, partition in remove]
            parts = [*(["set " + ", ".join(set_)] if set_ else [])]
            parts += ["remove " + ", ".join(removed)] if removed else []
            return f"in consumer group {_public_text(group)}: {'; '.join(parts)}"
        case DeleteGroup(group=group):
            return f"delete consumer group {_public_text(group)}"
        case FenceProducers(transactional_ids=ids):
            return f"fence the producers {', '.join(map(_public_text, ids))}"
        case RestartInstances(connector=name, instances=instances):
            shown = _public_text(name)
            pieces = [shown if task is None else f"task {shown}-{task}" for task in instances]
            return f"restart {', '.join(pieces)}, where it runs"
        case WriteOffsets(topic=topic, records=records):
            written = [f"{_key(draft.key)} {_value(draft.value)}" for draft in records]
            place = f"topic {_public_text(topic)}"
            return f"on the cluster of the producer, {place}: {', '.join(written)}"
