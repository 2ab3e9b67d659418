"""Requests, crashes and time in scenarios: cases that no scenario file shows."""

import pytest

from controlplane.core.commands import CreateConnector, PutConfig
from controlplane.core.records import Target
from controlplane.core.releases.profiles import Profile
from controlplane.scenario.forwarding import forwarded_body
from tests.scenario.playback import printed

ORDERS = 'given config\nconnector-orders  {"properties":{"connector.class":"JdbcSource"}}\n----\n\n'
STOP = "PUT /connectors/orders/stop via=w1\n----\n\n"
HALF_STOPPED = f"{ORDERS}crash w1 after=tasks\n----\n\n{STOP}"


def after(*steps: str, cluster: str = "cluster w1@kip w2@3.9") -> list[str]:
    """Output of the last of these steps."""
    return printed("".join(f"{step.rstrip()}\n----\n\n" for step in (cluster, *steps)))


def test_the_response_precedes_the_records() -> None:
    """The order of output is crash, response, records, also without a response."""
    text = f"cluster w1@kip\n----\n\n{HALF_STOPPED}"
    assert printed(text) == [
        "w1 crashed after tasks",
        "(no response)",
        'config@1  commit-orders         {"tasks":0}',
    ]


def test_a_new_leader_after_a_roll_completes_the_command() -> None:
    """The upgraded worker becomes the leader, and repeats the interrupted stop."""
    text = f"cluster w1@kip w2@3.9\n----\n\n{HALF_STOPPED}roll w2 to=4.3 leader=w2\n----\n"
    assert printed(text) == [
        "w2 3.9 -> 4.3",
        "leader w2@4.3",
        "stop orders: repeated",
        '  config@2  commit-orders         {"tasks":0}',
        '  config@3  target-state-orders   {"state":"PAUSED","state.v2":"STOPPED"}',
    ]


def test_a_roll_starts_a_stopped_worker() -> None:
    """A roll starts a worker that was down; a leader leads again."""
    text = f"cluster w1@kip w2@3.9\n----\n\n{HALF_STOPPED}roll w1 to=3.9\n----\n"
    assert printed(text)[:3] == ["w1 kip -> 3.9", "leader w1@3.9", "stop orders: repeated"]
    assert printed(f"{text}\n{STOP}")[0] == "204"


def test_a_worker_that_crashes_in_its_roll_is_down() -> None:
    """A crash point that was armed before the roll stays armed until the worker is back."""
    text = (
        f"cluster w1@kip\n----\n\n{HALF_STOPPED}crash w1 after=state\n----\n\n"
        "roll w1 to=3.9\n----\n\n"
    )
    assert printed(text)[-1] == "w1 crashed after state"
    assert printed(f"{text}GET / via=w1\n----\n") == ["(no response)"]


def test_stabilize_replaces_a_lost_leader() -> None:
    """The leader stays while it runs, and if all workers are down."""
    assert after("stabilize") == ["ok"]
    assert after("crash w1") == ["w1 crashed"]
    assert after("crash w1", "stabilize") == ["w2@3.9", "  leads instead of w1"]
    assert after("crash w1", "crash w2", "stabilize") == ["ok"]
    assert after("crash w2", "stabilize") == ["ok"]


def test_the_next_worker_takes_over_after_a_crash() -> None:
    """The next worker takes over and repeats the stop; after its crash, a third worker does."""
    cluster = "cluster w1@kip w2@kip w3@kip"
    text = f"{cluster}\n----\n\n{HALF_STOPPED}crash w2 after=tasks\n----\n\nstabilize\n----\n"
    assert printed(text) == [
        "w2@kip",
        "  leads instead of w1",
        "  stop orders",
        '    config@2  commit-orders         {"tasks":0}',
        "  w2 crashed after tasks",
        "w3@kip",
        "  leads instead of w2",
        "  stop orders: repeated",
        '    config@3  commit-orders         {"tasks":0}',
        '    config@4  target-state-orders   {"state":"PAUSED","state.v2":"STOPPED"}',
    ]


def test_silence_is_counted_from_the_crash() -> None:
    """The ten seconds count from the crash, over any steps."""
    assert after("crash w1", "tick 9s") == ["ok"]
    assert after("crash w1", "tick 5s", "tick 5s") == ["w2@3.9", "  leads instead of w1"]
    assert after("crash w1", "start w1", "tick 1m") == ["ok"]


def test_a_leader_that_comes_back_in_time_leads() -> None:
    """A leader that restarts before the group notices stays the leader."""
    back = after("crash w1", "start w1")
    assert back == ["w1@kip read config (empty), offsets (empty)", "nothing to recover"]
    assert after("crash w1", "tick 10s", "start w1") == back[:1]
    assert after("crash w2", "start w2") == ["w2@3.9 read config (empty), offsets (empty)"]


def test_read_positions_are_listed_by_partition() -> None:
    """A partition is listed if it has records; a marker counts as read."""
    cluster = "cluster w1@3.9 partitions=3"
    records = "given status transaction=committed\na  1\nd  2"
    own = 'given offsets topic=own\n["c",{}]  {"a":1}'
    lines = after(records, own, "crash w1", "start w1", cluster=cluster)
    assert lines[0] == "w1@3.9 read config (empty), offsets (empty), own to @0, status to @1:1 @2:1"


def test_running_workers_have_read_compacted_records() -> None:
    """A running worker has read removed records; a starting one reads the rest."""
    steps = (
        "given config\ncommit-orders  {}\nconnector-orders  {}\nconnector-orders  ∅",
        'given config\nconnector-orders  {"properties":{}}\nlogger-cluster-a  {"level":"INFO"}',
        "GET /connectors via=w2",
        "given config\nconnector-orders  ∅",
        "compact config tombstones=gone",
        "GET /connectors via=w2",
    )
    assert after(*steps[:3]) == ['200 ["orders"]']
    # The tombstone has gone before w2 could read it.
    assert after(*steps) == ['200 ["orders"]']
    assert after(*steps, "roll w2 to=3.9", "GET /connectors via=w2") == ["200 []"]


def test_signatures_are_not_passed_on() -> None:
    """A follower drops signatures, so the leader refuses its forwarded request."""
    request = 'POST /connectors/orders/tasks via=w2 from=w2\n[{"a":"b"}]'
    assert after(ORDERS.removesuffix("----\n\n"), request) == [
        "forwarded w2 -> w1",
        '400 {"error_code":400,"message":"Internal request missing required signature"}',
    ]


CONFIG = {"connector.class": "JdbcSource", "name": "orders"}
BODY = b'{"name": "orders"}'


@pytest.mark.parametrize(
    ("release", "state", "written"),
    [
        ("3.6", None, None),
        ("3.7", None, b"null"),
        ("4.3", Target.STARTED, b'"RUNNING"'),
        ("4.3", Target.STOPPED, b'"STOPPED"'),
        ("kip", None, None),
    ],
)
def test_a_forwarded_creation_always_has_the_initial_state(
    release: str, state: Target | None, written: bytes | None
) -> None:
    """From 3.7 on a worker always forwards the initial state, requested or not."""
    body = forwarded_body(CreateConnector("orders", CONFIG, state), BODY, Profile.of(release))
    config = b'{"name":"orders","config":{"connector.class":"JdbcSource","name":"orders"}'
    assert body == (BODY if written is None else config + b',"initial_state":' + written + b"}")


def test_other_bodies_are_passed_on_as_they_are() -> None:
    """Forwarded bodies of other commands get no initial state."""
    assert forwarded_body(PutConfig("orders", CONFIG), BODY, Profile.of("4.3")) == BODY


def test_pages_of_a_server_stay_on_one_line() -> None:
    """A response that is no JSON is printed on one line."""
    (line,) = after("GET /connectors/a%2Fb via=w1", cluster="cluster w1@4.3")
    assert line.startswith(r"400 <html>\x0A<head>")


def test_every_scenario_begins_anew() -> None:
    """Two worlds share no state, not even the number of the next command."""
    text = f"cluster w1@kip w2@3.9\n----\n\n{HALF_STOPPED}view commands\n----\n"
    assert printed(text) == printed(text)
