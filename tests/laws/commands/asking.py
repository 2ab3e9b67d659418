"""Random histories: what people, workers and foreign hands do to a cluster, one after the other.

A history is drawn from a `Random`, so that hypothesis can shrink one and a process of its own can
make up one. Few names, and a rough memory of what is there, so that most of it makes sense.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import msgspec

from controlplane.core import commands as c
from controlplane.core import javajson
from controlplane.core.codec.offsets import encode_partition
from controlplane.core.profiles import Profile
from controlplane.core.records import Properties, Target
from tests.controller.scene import CONFIG, OFFSETS, STATUS
from tests.laws.commands.world import SINK, SOURCE, Trouble

OWN = "own"
"""An offsets topic that several connectors may have as theirs."""

ODD_NAMES = ("cluster-x", "tasks-fencing-a", "süß/50%{}", "0", "🚀 x+;", "connector-a")
"""Names that look like keys, paths, numbers of tasks, or like nothing that Java could write."""


class Ask(NamedTuple):
    """A command; and what goes wrong with it."""

    command: c.AnyCommand
    crashes: tuple[int, ...] = ()
    """Behind which step the process dies; then behind which one of the recovery; and so on."""
    trouble: Trouble | None = None
    """The first thing that is done outside fails."""
    retried: tuple[bool, ...] = ()
    """The asker asks again: with the same key, or as for something new."""


class Together(NamedTuple):
    """Commands that are asked at the same time."""

    commands: tuple[c.AnyCommand, ...]


class Foreign(NamedTuple):
    """A record that somebody else writes."""

    topic: str
    key: bytes
    value: bytes | None


class Committed(NamedTuple):
    """Tasks of a sink commit an offset."""

    group: str
    partition: int
    offset: int


class TakeOver(NamedTuple):
    """Another control plane becomes the writer, while the old one still thinks that it is."""

    command: c.AnyCommand
    """What the old one is asked then."""


Event = Ask | Together | Foreign | Committed | TakeOver


class Drawing:
    """Draws one event after the other."""

    def __init__(
        self,
        chance: Random,
        profile: Profile,
        classes: Sequence[str] = (SOURCE, SOURCE, SOURCE, SINK, SINK),
    ) -> None:
        self._chance = chance
        self._profile = profile
        self._made_of = classes
        self._names = ("a", "a-1", chance.choice(ODD_NAMES))
        self._classes: dict[str, str] = {}
        """Connectors that are there, as far as one can tell."""
        self._stopped: set[str] = set()
        self._last: c.AnyCommand | None = None

    def event(self) -> Event:
        """Anything that may happen."""
        if self._chance.random() < _FOREIGN:
            return self._foreign()
        match self._chance.randrange(12):
            case 0:
                number = self._chance.randint(2, 4)
                return Together(tuple(self.command() for _ in range(number)))
            case 1:
                return TakeOver(self.command())
        command = self.command()
        return Ask(command, self._crashes(), self._trouble(), self._retried())

    def command(self) -> c.AnyCommand:
        """A command, which is the last one again at times."""
        if self._last is None or self._chance.random() > _REPEATED:
            self._last = self._drawn()
        return self._last

    def _drawn(self) -> c.AnyCommand:
        name = self._chance.choice(self._names)
        verbs = _VERBS[self._condition(name)]
        (verb,) = self._chance.choices(list(verbs), list(verbs.values()))
        command = verb(self, name)
        self._remember(command)
        return command

    def _condition(self, name: str) -> str:
        if name not in self._classes:
            return "absent"
        return "stopped" if name in self._stopped else "there"

    def _remember(self, command: c.AnyCommand) -> None:
        match command:
            case c.CreateConnector(name, config, state):
                self._classes.setdefault(name, config["connector.class"])
                if state is Target.STOPPED:
                    self._stopped.add(name)
            case c.PutConfig(name, config):
                self._classes[name] = config["connector.class"]
            case c.DeleteConnector(name) | c.RestoreConnector(name, None):
                self._classes.pop(name, None)
                self._stopped.discard(name)
            case c.RestoreConnector(name, config, state) if config is not None:
                self._classes[name] = config["connector.class"]
                (self._stopped.add if state is Target.STOPPED else self._stopped.discard)(name)
            case c.StopConnector(name):
                self._stopped.add(name)
            case c.ResumeConnector(name) | c.PauseConnector(name):
                self._stopped.discard(name)

    # --- what goes wrong ----------------------------------------------------------------------

    def _crashes(self) -> tuple[int, ...]:
        if self._chance.random() > _CRASHING:
            return ()
        return tuple(self._chance.randint(1, 3) for _ in range(self._chance.randint(1, 2)))

    def _trouble(self) -> Trouble | None:
        return self._chance.choice(list(Trouble)) if self._chance.random() < _TROUBLED else None

    def _retried(self) -> tuple[bool, ...]:
        return tuple(self._chance.choice((True, False)) for _ in range(self._chance.randint(0, 2)))

    # --- commands -----------------------------------------------------------------------------

    def _create(self, name: str) -> c.AnyCommand:
        config = self._config()
        state = (
            self._chance.choice((None, None, *Target)) if self._profile.creates_in_state else None
        )
        return c.CreateConnector(name, config, state, self._initial(config["connector.class"]))

    def _initial(self, connector_class: str) -> tuple[c.Change, ...] | None:
        if not self._profile.creates_with_offsets or self._chance.random() < 1 / 2:
            return None
        return self._changes(connector_class)

    def _put(self, name: str) -> c.AnyCommand:
        return c.PutConfig(name, self._config(self._classes.get(name)))

    def _patch(self, name: str) -> c.AnyCommand:
        patch = {"version": str(self._chance.randrange(9)), self._chance.choice("xyz"): None}
        return c.PatchConfig(name, patch)

    def _publish(self, name: str) -> c.AnyCommand:
        number = self._chance.choice((0, 1, 2, 2, 3))
        stamp = str(self._chance.randrange(99))
        configs = ({"task": str(task), "of": name, "n": stamp} for task in range(number))
        return c.PublishTasks(name, tuple(configs))

    def _restart(self, name: str) -> c.AnyCommand:
        flags = (self._chance.choice((True, False)) for _ in range(2))
        return c.RestartConnector(name, *flags)

    def _restart_task(self, name: str) -> c.AnyCommand:
        return c.RestartTask(name, self._chance.randrange(3))

    def _alter(self, name: str) -> c.AnyCommand:
        return c.AlterOffsets(name, self._changes(self._classes.get(name, SOURCE)))

    def _restore(self, name: str) -> c.AnyCommand:
        if self._chance.random() < 1 / 4:
            return c.RestoreConnector(name, None)
        config = {**self._config(self._classes.get(name)), "name": name}
        offsets = (
            self._changes(config["connector.class"]) if self._chance.random() < 1 / 3 else None
        )
        return c.RestoreConnector(name, config, self._chance.choice(list(Target)), offsets)

    def _level(self, _name: str) -> c.AnyCommand:
        return c.SetLoggerLevel("org.apache", self._chance.choice(("DEBUG", "LOUD")))

    def _config(self, connector_class: str | None = None) -> Properties:
        connector_class = connector_class or self._chance.choice(self._made_of)
        config = {"connector.class": connector_class, "version": str(self._chance.randrange(9))}
        if connector_class == SINK:
            return {**config, "topics": "t"}
        own = self._profile.own_offset_topics and self._chance.random() < 1 / 2
        return {**config, "offsets.storage.topic": OWN} if own else {**config, "x": "1"}

    def _changes(self, connector_class: str) -> tuple[c.Change, ...]:
        number = self._chance.choice((1, 1, 2, 2, 3, 0))
        one = self._sink_change if connector_class == SINK else self._source_change
        if self._chance.random() < _MISTAKEN:
            one = self._mistaken_change
        return tuple(one() for _ in range(number))

    def _source_change(self) -> c.Change:
        row = self._chance.choice((None, *range(100, 109)))
        return c.Change(self._partition(), None if row is None else {"row": row})

    def _sink_change(self) -> c.Change:
        offset = self._chance.choice((None, *range(100, 109)))
        partition = {"kafka_topic": "t", "kafka_partition": self._chance.randrange(3)}
        return c.Change(partition, None if offset is None else {"kafka_offset": offset})

    def _mistaken_change(self) -> c.Change:
        return c.Change({"page": [1]}, self._chance.choice((None, {"row": {}})))

    def _partition(self) -> Mapping[str, Any]:
        return self._chance.choice(_PARTITIONS)

    # --- others -------------------------------------------------------------------------------

    def _foreign(self) -> Event:
        name = self._chance.choice(self._names)
        return self._chance.choice(_FOREIGNERS)(self, name)

    def _offset(self, name: str) -> Event:
        """Of a running task, of one that should not run, of a connector long gone."""
        if self._classes.get(name) == SINK:
            group = f"connect-{name}"
            return Committed(group, self._chance.randrange(3), self._chance.randrange(9))
        topic = self._chance.choice(
            (OFFSETS, OWN) if self._profile.own_offset_topics else (OFFSETS,)
        )
        value = self._chance.choice((None, *(b'{"row":%d}' % row for row in range(5))))
        return Foreign(topic, self._offset_key(name), value)

    def _offset_key(self, name: str) -> bytes:
        """Releases find only keys whose members are in the order of Java's HashMap."""
        partition = self._partition()
        if not self._profile.offsets_by_log_key:
            return encode_partition(name, partition)
        spellings = encode_partition, _as_given, _with_spaces
        return self._chance.choice(spellings)(name, partition)

    def _status(self, name: str) -> Event:
        state = self._chance.choice(("RUNNING", "FAILED", "FAILED", "PAUSED", "UNASSIGNED"))
        task = self._chance.choice((f"connector-{name}", f"connector-{name}", f"task-{name}-0"))
        status = {"state": state, "trace": None, "worker_id": "w:8083", "generation": 1}
        return Foreign(STATUS, f"status-{task}".encode(), msgspec.json.encode(status))

    def _topic(self, name: str) -> Event:
        topic = self._chance.choice(("t", "u"))
        use = {"name": topic, "connector": name, "task": 0, "discoverTimestamp": 1}
        key = f"status-topic-{topic}:connector-{name}"
        return Foreign(STATUS, key.encode(), msgspec.json.encode({"topic": use}))

    def _orphan(self, name: str) -> Event:
        """What an older release, a crash or a bad script leaves, of connectors there or not."""
        key, value = self._chance.choice(_ORPHANS)
        return Foreign(CONFIG, key.format(name).encode(), value)


def _as_given(name: str, partition: Mapping[str, Any]) -> bytes:
    return javajson.encode([name, partition])


def _with_spaces(name: str, partition: Mapping[str, Any]) -> bytes:
    return javajson.encode([name, partition]).replace(b",", b", ")


_FOREIGN, _REPEATED, _CRASHING, _TROUBLED, _MISTAKEN = 0.3, 0.15, 0.3, 0.15, 0.05

_PARTITIONS: Sequence[Mapping[str, Any]] = (
    {"page": 0},
    {"page": 1},
    {"topic": "x", "partition": 0, "cluster": "y"},
)
"""The last one has other places in a HashMap than it was given in."""

_PAUSED, _STOPPED = b'{"state":"PAUSED"}', b'{"state":"PAUSED","state.v2":"STOPPED"}'
_ORPHANS: Sequence[tuple[str, bytes | None]] = (
    ("target-state-{}", _PAUSED),
    ("target-state-{}", _STOPPED),
    ("target-state-{}", b'{"state":"STOPPED"}'),
    ("target-state-{}", b'{"state":"STARTED"}'),
    ("target-state-{}", None),
    ("task-{}-0", b'{"properties":{"foreign":"0"}}'),
    ("task-{}-1", b'{"properties":{"foreign":"1"}}'),
    ("commit-{}", b'{"tasks":0}'),
    ("commit-{}", b'{"tasks":2}'),
    ("tasks-fencing-{}", b'{"task-count":2}'),
    ("restart-connector-{}", b'{"include-tasks":true,"only-failed":false}'),
    ("connector-other", b"{"),
)

_Verb = Callable[[Drawing, str], c.AnyCommand]


def _plain(kind: type[c.ConnectorCommand]) -> _Verb:
    return lambda _drawing, name: kind(name)  # type: ignore[return-value]


_DELETE, _STOP = _plain(c.DeleteConnector), _plain(c.StopConnector)
_PAUSE, _RESUME = _plain(c.PauseConnector), _plain(c.ResumeConnector)
_RESET, _FENCE, _TOPICS = _plain(c.ResetOffsets), _plain(c.FenceTasks), _plain(c.ResetTopics)
_ANY: Mapping[_Verb, int] = {
    Drawing._create: 1,
    Drawing._put: 2,
    Drawing._patch: 2,
    Drawing._publish: 2,
    Drawing._restart: 1,
    Drawing._restart_task: 1,
    Drawing._alter: 1,
    Drawing._level: 1,
    Drawing._restore: 2,
    _DELETE: 2,
    _STOP: 1,
    _PAUSE: 1,
    _RESUME: 1,
    _RESET: 1,
    _FENCE: 1,
    _TOPICS: 1,
}
_VERBS: Mapping[str, Mapping[_Verb, int]] = {
    "absent": {**_ANY, Drawing._create: 30},
    "there": {**_ANY, Drawing._publish: 6, _STOP: 7, Drawing._restart: 4, _TOPICS: 3},
    "stopped": {**_ANY, Drawing._alter: 9, _RESET: 5, _RESUME: 2},
}
"""What is asked of a connector by the condition it is in, and how often."""

_FOREIGNERS: Sequence[Callable[[Drawing, str], Event]] = (
    Drawing._offset,
    Drawing._offset,
    Drawing._offset,
    Drawing._status,
    Drawing._status,
    Drawing._topic,
    Drawing._topic,
    Drawing._orphan,
)
