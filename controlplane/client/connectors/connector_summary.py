"""Connectors as a cluster reports them: config, status and target state."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from controlplane.client.http.api import Api, connector
from controlplane.client.http.request_errors import Unsupported

RUNNING, PAUSED, STOPPED = "RUNNING", "PAUSED", "STOPPED"
FAILED, RESTARTING, UNASSIGNED = "FAILED", "RESTARTING", "UNASSIGNED"

UNKNOWN = "-"
"""Shown for a state or worker that nothing has reported."""

STYLES = {FAILED: "red", UNASSIGNED: "yellow", RESTARTING: "yellow", UNKNOWN: "yellow"}
"""Rich styles of a connector's line by its worst state."""


class ConnectorSummary(NamedTuple):
    """Connector with its reported status and its target state."""

    name: str
    info: Mapping[str, Any]
    """Answer to `GET /connectors/{c}`."""
    status: Mapping[str, Any] | None
    """Answer to `GET /connectors/{c}/status`; None: nothing is reported yet."""
    target_state: str | None = None
    """Target state; None: unknown to this server, or not requested."""

    @property
    def type(self) -> str:
        """`source`, `sink`, or `unknown` if the cluster lacks its class."""
        return str(self.info.get("type") or (self.status or {}).get("type") or "unknown")

    @property
    def state(self) -> str:
        """The state of the connector itself."""
        return UNKNOWN if self.status is None else str(self.status["connector"]["state"])

    @property
    def state_in_words(self) -> str:
        """The state for people; if nothing is reported, the target state: `PAUSED (wanted)`."""
        return (
            self.state
            if self.target_state is None or self.status
            else f"{self.target_state} (wanted)"
        )

    @property
    def worker(self) -> str:
        """The worker that reported the state."""
        return UNKNOWN if self.status is None else str(self.status["connector"]["worker_id"])

    @property
    def tasks(self) -> list[Mapping[str, Any]]:
        """Reported task states, as in Connect's answer; empty if nothing is reported yet."""
        return [] if self.status is None else list(self.status["tasks"])

    @property
    def states(self) -> set[str]:
        """State of the connector and those of its tasks."""
        return {self.state, *(str(task["state"]) for task in self.tasks)}

    @property
    def tasks_in_words(self) -> str:
        """`2 RUNNING, 1 FAILED, 1 not reported`; `none` without tasks."""
        counts = Counter(str(task["state"]) for task in self.tasks)
        parts = [f"{number} {state}" for state, number in counts.items()]
        unreported = len(self.info.get("tasks", ())) - len(self.tasks)
        if unreported > 0:
            parts.append(f"{unreported} not reported")
        return ", ".join(parts) or "none"

    @property
    def style(self) -> str:
        """Rich style of the connector's row by its worst state (`STYLES`); empty if all is well."""
        return next((style for state, style in STYLES.items() if state in self.states), "")


async def summaries(api: Api) -> list[ConnectorSummary]:
    """Every connector, by name, in at most three requests if the release can expand the list.

    Requests by name are avoided: a server may refuse a path with the name of a connector. Only
    releases before 2.3 get such requests.
    """
    names = sorted(await api.get("/connectors"))
    expanded = await api.get("/connectors", expand=["status", "info"])
    if isinstance(expanded, list):  # before 2.3
        return [
            connector_summary
            for name in names
            if (connector_summary := await summary(api, name)) is not None
        ]
    if any(name not in expanded for name in names):  # those without a status are left out
        expanded = await api.get("/connectors", expand="info") | expanded
    return [_expanded(name, expanded[name]) for name in names if name in expanded]


def _expanded(name: str, parts: Mapping[str, Any]) -> ConnectorSummary:
    return ConnectorSummary(name, parts.get("info") or {}, parts.get("status"))


async def summary(api: Api, name: str) -> ConnectorSummary | None:
    """Fetch one connector; None: there is none of that name."""
    info = await api.find(connector(name))
    if info is None:
        return None
    return ConnectorSummary(name, info, await api.find(connector(name, "status")))


async def with_target_states(api: Api, listed: list[ConnectorSummary]) -> list[ConnectorSummary]:
    """Add the target states if a connector has no status, and the server knows them."""
    if all(connector_summary.status for connector_summary in listed):
        return listed
    targets = await _targets(api, listed[0].name if len(listed) == 1 else None)
    return [
        connector_summary._replace(target_state=targets.get(connector_summary.name))
        for connector_summary in listed
    ]


async def target_state(api: Api, reported: ConnectorSummary) -> str:
    """Target state of a connector.

    Kafka's workers do not return it. It is then inferred from the reported state. A connector that
    is neither PAUSED nor STOPPED is meant to run, a FAILED one included.
    """
    targets = await _targets(api, reported.name)
    inferred = reported.state if reported.state in {PAUSED, STOPPED} else RUNNING
    return targets.get(reported.name) or inferred


async def _targets(api: Api, name: str | None) -> Mapping[str, str]:
    """Target states of one connector or of all; empty from Kafka's workers, which lack them."""
    if not api.server.ours:
        return {}
    try:
        page = await api.get("/targets", **({} if name is None else {"connector": name}))
    except Unsupported:  # beneath /compat/ our service has Connect's endpoints only
        return {}
    targets: dict[str, str] = page["targets"]
    while page.get("next") is not None:
        page = await api.get("/targets", after=page["next"])
        targets |= page["targets"]
    return targets


def rows(listed: list[ConnectorSummary]) -> Iterator[tuple[str, ...]]:
    """Yield a table row per connector: name, type, state, tasks, worker."""
    for connector_summary in listed:
        state, tasks = connector_summary.state_in_words, connector_summary.tasks_in_words
        yield connector_summary.name, connector_summary.type, state, tasks, connector_summary.worker
