"""Random histories: the commands and foreign records of a cluster, in sequence.

A `Random` draws everything, so equal seeds give equal histories. `Drawing` uses few names and
remembers roughly which connectors exist, so most commands apply to a connector.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random

from controlplane.core import commands as c
from controlplane.core.records import Properties, Target
from controlplane.core.releases.profiles import Profile
from tests.laws.commands.events import OWN, CommandEvent, ConcurrentCommands, Event, TakeOver
from tests.laws.commands.foreign_records import PARTITIONS, Foreigners
from tests.laws.commands.storage import Outage
from tests.laws.commands.world import SINK, SOURCE, Extent, Trouble

ODD_NAMES = ("cluster-x", "tasks-fencing-a", "süß/50%{}", "0", "🚀 x+;", "connector-a")
"""Connector names that resemble record keys, paths or task numbers, or have rare characters."""


class Drawing:
    """Draws one event after the other.

    Each drawing has its own number of names, connector types and frequencies of commands. So an
    event that is rare in one life is common in another.
    """

    def __init__(
        self, chance: Random, profile: Profile, classes: Sequence[str] = (SOURCE, SINK)
    ) -> None:
        self._chance = chance
        self._profile = profile
        self._classes = chance.choice([classes, classes[:1], classes[-1:]])
        self._names = ("a", "a-1", chance.choice(ODD_NAMES))[: chance.randint(1, 3)]
        self._partitions = PARTITIONS[: chance.randint(1, 3)]
        self._fond = {verb: chance.choice((1, 4, 4, 16)) for verb in _ANY}
        self._foreign = chance.choice((0.1, 0.3, 0.5))
        self._own = chance.choice((0, 0.5, 1)) if profile.own_offset_topics else 0
        self._foreigners = Foreigners(chance, profile, self._classes, self._partitions)
        self._present_classes: dict[str, str | None] = {}
        """Connectors that probably exist, with their classes."""
        self._stopped: set[str] = set()
        self._last: c.AnyCommand | None = None

    def events(self, number: int) -> list[Event]:
        """Random events; in half of all lives, a connector with tasks and a change come first."""
        past = self._past() if self._chance.random() < 1 / 2 else ()
        return [*past, *(self.event() for _ in range(number))]

    def _past(self) -> Iterator[Event]:
        name = self._names[0]
        for new_command in (self._create, self._publish):
            command = new_command(name)
            self._remember(command)
            yield CommandEvent(command)
            yield from self._foreigners.reports(name)
        command = self._chance.choice((_STOP, _PAUSE, _DELETE, _PUT))(self, name)
        self._remember(command)
        yield CommandEvent(command)

    def event(self) -> Event:
        """Draw any event of a cluster."""
        if self._chance.random() < self._foreign:
            return self._foreigners.anything(self._chance.choice(self._names))
        match self._chance.randrange(12):
            case 0:
                number = self._chance.randint(2, 4)
                return ConcurrentCommands(tuple(self.command() for _ in range(number)))
            case 1:
                return TakeOver(self.command())
        command = self.command()
        crashes, outage = self._crashes(), self._outage()
        return CommandEvent(command, crashes, self._trouble(), outage, self._retried())

    def command(self) -> c.AnyCommand:
        """Draw a command, which sometimes repeats the last one."""
        if self._last is None or self._chance.random() > _REPEATED:
            self._last = self._drawn()
        return self._last

    def _drawn(self) -> c.AnyCommand:
        name = self._chance.choice(self._names)
        verbs = _VERBS[self._condition(name)]
        weights = [often * self._fond[verb] for verb, often in verbs.items()]
        (verb,) = self._chance.choices(list(verbs), weights)
        command = verb(self, name)
        self._remember(command)
        return command

    def _condition(self, name: str) -> str:
        if name not in self._present_classes:
            return "absent"
        return "stopped" if name in self._stopped else "there"

    def _remember(self, command: c.AnyCommand) -> None:
        match command:
            case c.CreateConnector(name, config, state):
                self._present_classes.setdefault(name, config["connector.class"])
                if state is Target.STOPPED:
                    self._stopped.add(name)
            case c.PutConfig(name, config):
                self._present_classes[name] = config["connector.class"]
            case c.DeleteConnector(name) | c.RestoreConnector(name, None):
                self._present_classes.pop(name, None)
                self._stopped.discard(name)
            case c.RestoreConnector(name, config, state) if config is not None:
                self._present_classes[name] = config["connector.class"]
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

    def _outage(self) -> Outage | None:
        if self._chance.random() > _AWAY:
            return None
        behind, batches = self._chance.randint(0, 2), self._chance.randint(1, 2)
        # A retry stores the batch again. A release commits tasks in a batch of its own, and the
        # second commit would find no deferred tasks.
        written = self._profile.writes_atomically and self._chance.choice((True, False))
        return Outage(behind, batches, written)

    def _trouble(self) -> Trouble | None:
        if self._chance.random() > _TROUBLED:
            return None
        return Trouble(self._chance.randint(0, 1), self._chance.choice([*Extent]))

    def _retried(self) -> tuple[bool, ...]:
        return tuple(self._chance.choice((True, False)) for _ in range(self._chance.randint(0, 2)))

    # --- commands -----------------------------------------------------------------------------

    def _create(self, name: str) -> c.AnyCommand:
        config = self._config()
        state = (
            self._chance.choice((None, None, *Target)) if self._profile.creates_in_state else None
        )
        return c.CreateConnector(name, config, state, self._initial(config["connector.class"]))

    def _initial(self, connector_class: str | None) -> tuple[c.OffsetChange, ...] | None:
        if not self._profile.creates_with_offsets or self._chance.random() < 1 / 2:
            return None
        return self._changes(connector_class)

    def _put(self, name: str) -> c.AnyCommand:
        return c.PutConfig(name, self._config(self._present_classes.get(name)))

    def _patch(self, name: str) -> c.AnyCommand:
        patch = {"version": str(self._chance.randrange(9)), self._chance.choice("xxy"): None}
        return c.PatchConfig(name, patch)

    def _publish(self, name: str) -> c.AnyCommand:
        number = self._chance.choice((0, 1, 2, 2, 3))
        stamp = str(self._chance.randrange(99))
        configs = ({"task": str(task), "of": name, "n": stamp} for task in range(number))
        return c.PublishTasks(name, tuple(configs))

    def _restart(self, name: str) -> c.AnyCommand:
        include_tasks = self._chance.choice((True, False))
        return c.RestartConnector(name, include_tasks, self._chance.choice((True, True, False)))

    def _restart_task(self, name: str) -> c.AnyCommand:
        return c.RestartTask(name, self._chance.randrange(3))

    def _alter(self, name: str) -> c.AnyCommand:
        return c.AlterOffsets(name, self._changes(self._present_classes.get(name, SOURCE)))

    def _restore(self, name: str) -> c.AnyCommand:
        if self._chance.random() < 1 / 4:
            return c.RestoreConnector(name, None)
        config = {**self._config(self._present_classes.get(name)), "name": name}
        offsets = (
            self._changes(config["connector.class"]) if self._chance.random() < 1 / 3 else None
        )
        return c.RestoreConnector(name, config, self._chance.choice(list(Target)), offsets)

    def _level(self, _name: str) -> c.AnyCommand:
        return c.SetLoggerLevel("org.apache", self._chance.choice(("DEBUG", "LOUD")))

    def _config(self, connector_class: str | None = None) -> Properties:
        connector_class = connector_class or self._chance.choice(self._classes)
        config = {"connector.class": connector_class, "version": str(self._chance.randrange(9))}
        if connector_class == SINK:
            return {**config, "topics": "t"}
        own = self._chance.random() < self._own
        return {**config, "x": "1"} | ({"offsets.storage.topic": OWN} if own else {})

    def _changes(self, connector_class: str | None) -> tuple[c.OffsetChange, ...]:
        number = self._chance.choice((1, 1, 2, 2, 3, 0))
        draw_change = self._sink_change if connector_class == SINK else self._source_change
        if self._chance.random() < _MISTAKEN:
            draw_change = self._mistaken_change
        return tuple(draw_change() for _ in range(number))

    def _source_change(self) -> c.OffsetChange:
        row = self._chance.choice((None, *range(100, 109)))
        return c.OffsetChange(
            self._chance.choice(self._partitions), None if row is None else {"row": row}
        )

    def _sink_change(self) -> c.OffsetChange:
        offset = self._chance.choice((None, *range(100, 109)))
        partition = {"kafka_topic": "t", "kafka_partition": self._chance.randrange(3)}
        return c.OffsetChange(partition, None if offset is None else {"kafka_offset": offset})

    def _mistaken_change(self) -> c.OffsetChange:
        return c.OffsetChange({"page": [1]}, self._chance.choice((None, {"row": {}})))


_REPEATED, _CRASHING, _AWAY, _TROUBLED, _MISTAKEN = 0.15, 0.35, 0.15, 0.4, 0.05

_Verb = Callable[[Drawing, str], c.AnyCommand]


def _plain(kind: type[c.ConnectorCommand]) -> _Verb:
    return lambda _drawing, name: kind(name)  # type: ignore[return-value]


_DELETE, _STOP = _plain(c.DeleteConnector), _plain(c.StopConnector)
_PAUSE, _RESUME = _plain(c.PauseConnector), _plain(c.ResumeConnector)
_PUT: _Verb = Drawing._put
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
    "there": {**_ANY, Drawing._publish: 5, _STOP: 7, _PAUSE: 3, Drawing._restart: 5, _TOPICS: 3},
    "stopped": {**_ANY, Drawing._alter: 9, _RESET: 5, _RESUME: 2},
}
"""Commands for a connector by its condition, with their weights."""
