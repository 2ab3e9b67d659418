"""A request that has found its endpoint, and what it is answered from."""

from enum import Enum
from typing import NamedTuple, Protocol

from controlplane.asof import Then
from controlplane.core.commands import AnyCommand
from controlplane.core.context import Worker
from controlplane.core.plan import GroupOffsets, Outcome, Plan, Rejected
from controlplane.core.plugins import Plugins
from controlplane.core.profiles import Profile
from controlplane.follower import Follower
from controlplane.logs.log import LogError, ReadableLog
from controlplane.rest.body_process import BodyProcesses
from controlplane.rest.errors import BadQuestion
from controlplane.rest.loggers import Loggers
from controlplane.rest.requests import Request
from controlplane.watching import Watching


class Planner(Protocol):
    """Whoever can tell what a command would do."""

    async def plan(
        self, command: AnyCommand, *, profile: Profile | None, believe_hooks: bool
    ) -> Plan | Rejected:
        """What would be done for it; nothing is written."""
        ...


class Commands(Planner, Protocol):
    """Whoever carries commands out: an embedded `ControlPlane` does."""

    @property
    def failure(self) -> LogError | None:
        """Why they cannot be carried out any more."""
        ...

    async def trouble(self) -> LogError | None:
        """Why none could be carried out just now, as a look at the log tells."""
        ...

    async def carry_out(
        self,
        command: AnyCommand,
        *,
        principal: str,
        key: str | None,
        profile: Profile | None,
    ) -> Outcome | Rejected:
        """Run a command to its end, once for each key, as a worker of this release."""
        ...

    def command_of(self, key: str) -> AnyCommand | None:
        """The command that was accepted under an idempotency key, as far as it is remembered."""
        ...

    async def group_offsets(self, connector: str) -> GroupOffsets:
        """What the consumer group of a sink connector has committed.

        Raises:
            OutsideFailed: it cannot be asked.
        """
        ...


class Part(Enum):
    """Which endpoints a listener has: what administers may have one of its own (KIP-495)."""

    ALL = "all"
    PUBLIC = "what does not administer"
    ADMIN = "what administers"

    def has(self, template: tuple[str, ...]) -> bool:
        """Whether an endpoint with this path is there."""
        return self is Part.ALL or (self is Part.ADMIN) == (template[:1] == ("admin",))


class Service(NamedTuple):
    """One cluster, as far as this process knows it."""

    follower: Follower
    dialect: Profile
    """The release as which to answer where a request names none."""
    plugins: Plugins = Plugins()
    commands: Commands | None = None
    """None: the log can only be read here."""
    planner: Planner | None = None
    """Who answers dry runs where the log can only be read; None: nobody."""
    cluster_id: str | None = None
    worker: Worker = Worker()
    """The settings of the worker as which it answers."""
    log: ReadableLog | None = None
    """Where the past is read; None: only the present is answered from."""
    watching: Watching | None = None
    loggers: Loggers | None = None
    """Those of this process; None: nobody may see them."""
    part: Part = Part.ALL
    metrics: bool = False
    """Whether `/metrics` is served in front of the application."""
    bodies: BodyProcesses = BodyProcesses()


_FLAGS = {"true": True, "false": False}


class Call(NamedTuple):
    """A request with all that has been found out about it."""

    service: Service
    request: Request
    profile: Profile
    """The release as which it is answered."""
    names: tuple[str, ...]
    """What the open segments of the path hold, decoded."""
    query: dict[str, list[str]]
    body: bytes | None = None

    def asked(self, name: str) -> str | None:
        """The first value of a query parameter."""
        return self.query[name][0] if name in self.query else None

    def flag(self, name: str) -> bool:
        """Whether a query parameter of ours is true.

        Raises:
            BadQuestion: it says neither yes nor no, and then nothing is done.
        """
        given = self.asked(name)
        if given is None:
            return False
        if given.lower() not in _FLAGS:
            raise BadQuestion(f"{name}={given} is neither true nor false: nothing has been done")
        return _FLAGS[given.lower()]

    def check_present(self) -> None:
        """Refuse to do something to the past.

        Raises:
            BadQuestion: the request is about a moment of it.
        """
        if self.request.as_of is not None:
            raise BadQuestion("as_of= asks for the past, and nothing can be done to it")

    async def then(self) -> Then:
        """The state at the moment that is asked for."""
        follower, moment = self.service.follower, self.request.as_of
        if moment is None:
            return Then(await follower.state(self.profile))
        return await follower.state_at(moment, self.profile)

    @property
    def key(self) -> str | None:
        """Under which key the command is run once (`Idempotency-Key`).

        Raises:
            BadQuestion: it is empty, as that of everybody who has none.
        """
        given = self.request.headers.get("idempotency-key")
        if given == "":
            raise BadQuestion("Idempotency-Key is empty: leave it out, or use a new key")
        return given

    @property
    def principal(self) -> str:
        """Name of the caller."""
        return self.request.principal
