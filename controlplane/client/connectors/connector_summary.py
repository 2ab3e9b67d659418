"""Connectors as a cluster reports them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from controlplane.client.http.api import Api, connector
from controlplane.client.http.request_errors import Unsupported

RUNNING, PAUSED, STOPPED = "RUNNING", "PAUSED", "STOPPED"
FAILED, RESTARTING, UNASSIGNED = "FAILED", "RESTARTING", "UNASSIGNED"

UNKNOWN = "-"
"""Instead of a state, where nothing is reported and nobody tells what is wanted."""

STYLES = {FAILED: "red", UNASSIGNED: "yellow", RESTARTING: "yellow", UNKNOWN: "yellow"}
"""Rich styles of a connector's line by its worst state."""


class ConnectorSummary(NamedTuple):
    """A connector: what it is told to be, and what is reported of it."""

    name: str
    info: Mapping[str, Any]
    """As `GET /connectors/{c}` has it."""
    status: Mapping[str, Any] | None
    """As `GET /connectors/{c}/status` has it; None: nothing is reported yet."""
    wanted: str | None = None
    """Target state; None: unknown to this server, or not requested."""

    @property
    def type(self) -> str:
        """`source`, `sink`, or `unknown` where its class is not there."""
        return str(self.info.get("type") or (self.status or {}).get("type") or "unknown")

    @property
    def state(self) -> str:
        """The state of the connector itself."""
        return UNKNOWN if self.status is None else str(self.status["connector"]["state"])

    @property
    def state_in_words(self) -> str:
        """The same for people; where nothing is reported, what is wanted, and that it is that."""
        return self.state if self.wanted is None or self.status else f"{self.wanted} (wanted)"

    @property
    def worker(self) -> str:
        """The worker that it is reported from."""
        return UNKNOWN if self.status is None else str(self.status["connector"]["worker_id"])

    @property
    def tasks(self) -> list[Mapping[str, Any]]:
        """Reported states of its tasks."""
        return [] if self.status is None else list(self.status["tasks"])

    @property
    def states(self) -> set[str]:
        """Its state and those of its tasks."""
        return {self.state, *(str(task["state"]) for task in self.tasks)}

    @property
    def tasks_in_words(self) -> str:
        """`2 RUNNING, 1 FAILED`; those that report nothing are counted, too."""
        counts = Counter(str(task["state"]) for task in self.tasks)
        silent = len(self.info.get("tasks", ())) - len(self.tasks)
        told = [f"{number} {state}" for state, number in counts.items()]
        return ", ".join([*told, *([f"{silent} not reported"] if silent > 0 else [])]) or "none"

    @property
    def style(self) -> str:
        """Rich style of its line."""
        return next((style for state, style in STYLES.items() if state in self.states), "")


async def summaries(api: Api) -> list[ConnectorSummary]:
    """Every connector, by name: in three requests at most where the release can expand its list.

    None is asked for by itself then: a server may refuse a path with such a name.
    """
    names = sorted(await api.get("/connectors"))
    expanded = await api.get("/connectors", expand=["status", "info"])
    if isinstance(expanded, list):  # before 2.3
        return [one for name in names if (one := await summary(api, name)) is not None]
    if any(name not in expanded for name in names):  # those without a status are left out
        expanded = await api.get("/connectors", expand="info") | expanded
    return [_of(name, expanded[name]) for name in names if name in expanded]


def _of(name: str, shown: Mapping[str, Any]) -> ConnectorSummary:
    return ConnectorSummary(name, shown.get("info") or {}, shown.get("status"))


async def summary(api: Api, name: str) -> ConnectorSummary | None:
    """Fetch one connector; None: there is none of that name."""
    info = await api.find(connector(name))
    if info is None:
        return None
    return ConnectorSummary(name, info, await api.find(connector(name, "status")))


async def with_wanted(api: Api, found: list[ConnectorSummary]) -> list[ConnectorSummary]:
    """The same; those of which nothing is reported with what is wanted, if anybody can tell it."""
    if all(one.status for one in found):
        return found
    targets = await _targets(api, found[0].name if len(found) == 1 else None)
    return [one._replace(wanted=targets.get(one.name)) for one in found]


async def target_state(api: Api, one: ConnectorSummary) -> str:
    """Target state of a connector.

    Where nobody tells, it can only be seen by what is reported: one that fails is meant to run.
    """
    targets = await _targets(api, one.name)
    return targets.get(one.name) or (one.state if one.state in {PAUSED, STOPPED} else RUNNING)


async def _targets(api: Api, name: str | None) -> Mapping[str, str]:
    """Target states of one connector or of all. Kafka's workers have no such endpoint."""
    if not api.server.ours:
        return {}
    try:
        page = await api.get("/targets", **({} if name is None else {"connector": name}))
    except Unsupported:  # beneath /compat/ it hides what only it has
        return {}
    targets: dict[str, str] = page["targets"]
    while page.get("next") is not None:
        page = await api.get("/targets", after=page["next"])
        targets |= page["targets"]
    return targets


def rows(found: list[ConnectorSummary]) -> Iterator[tuple[str, ...]]:
    """A line of a table for each."""
    for one in found:
        yield one.name, one.type, one.state_in_words, one.tasks_in_words, one.worker
