"""U1 to U4, changes of a connector's config; P1 to P5, its tasks."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.core.commands import (
    CreateConnector,
    DeleteConnector,
    PatchConfig,
    PublishTasks,
    PutConfig,
    RestoreConnector,
    StopConnector,
)
from controlplane.core.plan import Outcome, Reason
from controlplane.core.records import Properties, Target
from tests.laws.commands.life import Life, Observation

CONFIGURES = (CreateConnector, PutConfig, PatchConfig, DeleteConnector, RestoreConnector)
SETS_TASKS = (PublishTasks, StopConnector, DeleteConnector, RestoreConnector)


def u1(life: Life) -> Iterator[None]:
    """A new config leaves target state, offsets and active topics as they are."""
    for act in life.acts:
        if isinstance(act.command, PutConfig | PatchConfig) and act.before.config(act.name):
            for moment in act.moments:
                before, after = (observation.state.config.targets for observation in moment.around)
                assert before[act.name] is after[act.name]
                assert moment.before.topics(act.name) == moment.after.topics(act.name)
                yield
            assert not act.changes_offsets()


def u2(life: Life) -> Iterator[None]:
    """Only a publication of tasks, a stop, a deletion or a restoration changes the task set."""
    for act in life.acts:
        if not isinstance(act.command, SETS_TASKS) and act.before.config(act.name) is not None:
            for moment in act.moments:
                assert moment.after.tasks(act.name) == act.before.tasks(act.name)
                yield


def u3(life: Life) -> Iterator[None]:
    """An acknowledged config stays until a later command writes another one."""
    for number, act in enumerate(life.acts):
        if not isinstance(act.command, PutConfig | PatchConfig) or not act.succeeded():
            continue
        if isinstance(act.command, PutConfig):
            assert act.after.config(act.name) == {**act.command.config, "name": act.name}
        answered_ms = act.answered[-1].ended_ms
        for later in life.acts[number + 1 :]:
            if later.name == act.name:
                if later.answered and later.answered[0].began_ms > answered_ms:
                    assert later.before.config(act.name) == act.after.config(act.name)
                    yield
                if isinstance(later.command, CONFIGURES):
                    break


def u4(life: Life) -> Iterator[None]:
    """A patched config is the patch applied to the config of the record right before it."""
    for act, command in life.acts_of(PatchConfig):
        for moment in act.of("connector-"):
            assert moment.entry.value is not None
            written = json.loads(moment.entry.value)["properties"]
            assert written == _patched(moment.before.config(act.name) or {}, command.patch)
            yield


def p1(life: Life) -> Iterator[None]:
    """The visible tasks of a connector are none, or all of 0..n-1."""
    for moment in life.moments:
        for name in life.names():
            tasks = moment.after.tasks(name)
            assert all(config is not None for config in tasks.values())
            assert list(tasks) == list(range(len(tasks)))
            yield


def p2(life: Life) -> Iterator[None]:
    """Each visible task config is the last one written for its number before the commit."""
    written: dict[str, bytes | None] = {}
    committed: dict[str, Mapping[str, bytes | None]] = {}
    for moment in life.moments:
        if moment.key.startswith("commit-"):
            committed[moment.key.removeprefix("commit-")] = dict(written)
        if moment.key.startswith("task-"):
            written[moment.key] = moment.entry.value
        for name in life.names():
            for task, config in moment.after.tasks(name).items():
                value = committed[name][f"task-{name}-{task}"] or b""
                assert json.loads(value)["properties"] == config
                yield


def p3(life: Life) -> Iterator[None]:
    """No tasks are published for a connector that is STOPPED."""
    for act, command in life.acts_of(PublishTasks):
        stopped = act.before.state.config.targets.get(act.name) is Target.STOPPED
        if command.configs and stopped and act.before.config(act.name) is not None:
            assert not act.moments
            assert act.failed() or act.refused(Reason.INVALID)
            yield


def p5(life: Life) -> Iterator[None]:
    """Generations count the applied commits: each adds one, and none is taken back."""
    if not life.profile.fencing:
        return
    for moment in life.moments:
        before, after = (
            observation.state.config.generations for observation in (moment.before, moment.after)
        )
        assert before.keys() <= after.keys()
        for name, generation in after.items():
            raised = generation - before.get(name, -1)
            assert raised == 0 or (raised == 1 and moment.is_record_of("commit-", name))
    for act, command in life.acts_of(PublishTasks):
        if command.configs and isinstance(act.answer, Outcome) and len(act.of("commit-")) == 1:
            assert _generation(act.after, act.name) == _generation(act.before, act.name) + 1
            yield


def _generation(observation: Observation, name: str) -> int:
    return observation.state.config.generations.get(name, -1)


def _patched(config: Properties, patch: Properties) -> dict[str, Any]:
    merged = {**config, **patch}
    return {key: value for key, value in merged.items() if value is not None}
