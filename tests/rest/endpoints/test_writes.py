"""Requests that change something: the command of each, and the answer to each outcome.

This module tests cases that no history contains. `tests/test_command_histories.py` compares our
answers with those of real clusters in the histories.
"""

from typing import Any

import msgspec
import pytest

from controlplane.core import commands
from controlplane.core.commands import AnyCommand, OffsetChange
from controlplane.core.plan import Outcome, Reason, Rejected
from controlplane.core.plugins import parse_catalogue
from controlplane.core.records import State, Status, Target
from controlplane.core.releases.behaviours import BEHAVIOURS
from controlplane.core.releases.profiles import KIP, PROFILES, Profile
from controlplane.core.state import ClusterState, ConfigState, StatusState
from controlplane.rest.endpoints.pure_requests import command_of
from controlplane.rest.endpoints.router import Methods, find
from controlplane.rest.endpoints.writes import ROUTES, CompletedCommand, answer_to
from controlplane.rest.errors import Answer, NoSuchMethod, NoSuchPath, RestError, refused

OURS = Profile.of(KIP)
V39 = Profile.of("3.9.1")


def command_from(
    method: str, target: str, body: Any = None, profile: Profile = V39, **options: Any
) -> AnyCommand:
    """The command of a request whose body is a JSON value."""
    sent = None if body is None else msgspec.json.encode(body)
    return command_of(method, target, sent, profile, **options)


def refusal(method: str, target: str, body: Any = None, profile: Profile = V39) -> tuple[int, Any]:
    """Status and message with which a request is refused."""
    with pytest.raises(RestError) as refused:
        command_from(method, target, body, profile)
    answer = refused.value.answer()
    return answer.status, answer.body["message"]


# --- routes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "target", "since"),
    [
        ("PUT", "/connectors/a/pause", "0.10.0.0"),
        ("PUT", "/connectors/a/resume", "0.10.0.0"),
        ("POST", "/connectors/a/restart", "0.10.0.0"),
        ("POST", "/connectors/a/tasks/0/restart", "0.10.0.0"),
        ("PUT", "/connectors/a/topics/reset", "2.5.0"),
        ("PUT", "/connectors/a/fence", "3.3.0"),
        ("PUT", "/connectors/a/stop", "3.5.0"),
        ("PATCH", "/connectors/a/offsets", "3.6.0"),
        ("DELETE", "/connectors/a/offsets", "3.6.0"),
        ("PATCH", "/connectors/a/config", "3.8.0"),
    ],
)
def test_routes_come_with_releases(method: str, target: str, since: str) -> None:
    """A route exists from the release on that introduced it."""
    path = tuple(target.strip("/").split("/"))
    having = [profile.release for profile in PROFILES if method in _methods(path, target, profile)]
    assert (having[0], having[-1]) == (since, KIP)


def _methods(path: tuple[str, ...], target: str, profile: Profile) -> Methods:
    try:
        return find(path, target, profile)[0]
    except NoSuchPath:
        return {}


def test_routes_need_existing_behaviours() -> None:
    """Every row names an attribute that profiles have."""
    fields = {row.field for row in BEHAVIOURS}
    assert {route.needs for route in ROUTES} - {None} <= fields


def test_every_command_is_one_request() -> None:
    """Each command has a single route."""
    made = [route.command for route in ROUTES]
    assert len(set(made)) == len(made)


def test_a_read_only_path_is_not_unknown() -> None:
    """Before KIP-875 the stop path is unknown (404); in 3.5 the offsets path is read-only (405)."""
    with pytest.raises(NoSuchPath):
        command_from("PUT", "/connectors/a/stop", profile=Profile.of("3.4"))
    with pytest.raises(NoSuchMethod):
        command_from("PATCH", "/connectors/a/offsets", {"offsets": [{}]}, Profile.of("3.5"))
    with pytest.raises(NoSuchMethod):
        command_from("DELETE", "/connectors")
    with pytest.raises(NoSuchPath):
        command_from("POST", "/connector")


@pytest.mark.parametrize("name", ["a/b", "ä", "a b", "50%", "a+b", "..", "x;y", "{}"])
def test_encoded_names_are_decoded(name: str) -> None:
    """A percent-encoded name may contain any characters."""
    encoded = "".join(f"%{byte:02X}" for byte in name.encode())
    assert command_from("DELETE", f"/connectors/{encoded}") == commands.DeleteConnector(name)


# --- commands -------------------------------------------------------------------------------


def test_a_creation_trims_the_name() -> None:
    """Java's `trim` shortens the name, and the config contains the name."""
    config = {"connector.class": "X"}
    command = command_from("POST", "/connectors", {"name": "\x01 a\u00a0 ", "config": config})
    assert command == commands.CreateConnector("a\u00a0", {**config, "name": "a\u00a0"})


def test_create_keeps_the_place_of_a_null_name() -> None:
    """The name replaces a null `name` of the config in the same position."""
    command = command_from("POST", "/connectors", {"name": "a", "config": {"name": None, "x": "y"}})
    assert isinstance(command, commands.CreateConnector)
    assert list(command.config.items()) == [("name", "a"), ("x", "y")]


def test_the_config_definition_decides_about_an_empty_name() -> None:
    """An empty name is no error of the request: the config's definition decides about it."""
    assert command_from("POST", "/connectors", {"config": {}}) == commands.CreateConnector(
        "", {"name": ""}
    )


@pytest.mark.parametrize(
    ("initial_state", "state"),
    [("running", Target.STARTED), ("PAUSED", Target.PAUSED), (None, None)],
)
def test_initial_state_running_becomes_started(
    initial_state: str | None, state: Target | None
) -> None:
    """RUNNING becomes the target state STARTED (KIP-980)."""
    command = command_from(
        "POST", "/connectors", {"name": "a", "config": {}, "initial_state": initial_state}
    )
    assert isinstance(command, commands.CreateConnector)
    assert command.initial_state is state


def test_only_our_own_release_accepts_initial_offsets() -> None:
    """Only our own release accepts `initial_offsets` (KIP-995)."""
    body = {"name": "a", "config": {}, "initial_offsets": [{"partition": {"p": 1}, "offset": {}}]}
    command = command_from("POST", "/connectors", body, OURS)
    assert isinstance(command, commands.CreateConnector)
    assert command.initial_offsets == (OffsetChange({"p": 1}, {}),)
    status, message = refusal("POST", "/connectors", body)
    assert status == 500
    assert message.startswith('Unrecognized field "initial_offsets"')
    nothing = {**body, "initial_offsets": []}
    assert refusal("POST", "/connectors", nothing, OURS)[0] == 400


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("POST", "/connectors", {"name": "a", "config": {"name": " a"}}),
        ("PUT", "/connectors/a/config", {"name": " a"}),
    ],
)
def test_names_must_agree(method: str, target: str, body: Any) -> None:
    """The name in a config is the connector's, to the character."""
    message = "Connector name configuration ( a) doesn't match connector name in the URL (a)"
    assert refusal(method, target, body) == (400, message)


def test_restart_flags_are_read_as_in_java() -> None:
    """Flags are read as Java reads a Boolean: all but `true` is false; the first one counts."""
    target = "/connectors/a/restart?includeTasks=TRUE&onlyFailed=yes&onlyfailed=true"
    assert command_from("POST", target) == commands.RestartConnector("a", True, False)
    twice = "/connectors/a/restart?onlyFailed=&onlyFailed=true"
    assert command_from("POST", twice) == commands.RestartConnector("a", False, False)


def test_task_numbers_are_read_as_in_java() -> None:
    """Task numbers are read as Java reads an integer; anything else is an unknown path."""
    for number in ("1", "+1", "01", "%31"):
        target = f"/connectors/a/tasks/{number}/restart"
        assert command_from("POST", target) == commands.RestartTask("a", 1)
    for number in ("x", "1.0", "9999999999"):
        status = refusal("POST", f"/connectors/a/tasks/{number}/restart")
        assert status == (404, "HTTP 404 Not Found")


def test_only_levels_of_all_workers_are_commands() -> None:
    """A command exists only for the level of all workers; a release before KIP-976 has none."""
    target = "/admin/loggers/org.example?scope=Cluster"
    assert command_from("PUT", target, {"level": "debug", "x": 1}) == commands.SetLoggerLevel(
        "org.example", "debug"
    )
    missing = (400, "Desired 'level' parameter was not specified in request.")
    assert refusal("PUT", target, {"Level": "INFO"}) == missing
    assert refusal("PUT", "/admin/loggers/x", {"level": "INFO"})[0] == 400
    assert refusal("PUT", target, {"level": "INFO"}, Profile.of("3.6"))[0] == 404


def test_internal_requests_are_signed() -> None:
    """Workers sign requests to the leader since KIP-507; the body is read before the signature."""
    target = "/connectors/a/tasks"
    unsigned = (400, "Internal request missing required signature")
    assert refusal("POST", target, [{}]) == unsigned
    assert refusal("PUT", "/connectors/a/fence") == unsigned
    assert refusal("POST", target, {})[0] == 500
    status, message = refusal("POST", target)
    assert status == 500
    assert message.startswith("No content to map due to end-of-input\n at [Source: REDACTED")
    assert message.endswith("; line: 1]")
    command = command_from("POST", target, [{"a": "b"}, None], signed=True)
    assert command == commands.PublishTasks("a", ({"a": "b"}, {}))
    assert command_from("PUT", "/connectors/a/fence", signed=True) == commands.FenceTasks("a")
    assert command_from("POST", target, [], Profile.of("2.3")) == commands.PublishTasks("a", ())


# --- answers --------------------------------------------------------------------------------

PLUGINS = parse_catalogue(b'[{"class":"X","type":"source"}]')


def state_with(name: str, **status: State) -> ClusterState:
    """A state with one connector of two tasks; `status` by task (`t0`), or `connector`."""
    reports = {who: Status(state, None, "w:1", 1) for who, state in status.items()}
    tasks = {int(who[1:]): report for who, report in reports.items() if who != "connector"}
    connectors = {name: reports["connector"]} if "connector" in reports else {}
    return ClusterState(
        OURS,
        config=ConfigState(
            connectors={name: {"connector.class": "X"}},
            task_counts={name: 2},
        ),
        status=StatusState(connectors=connectors, tasks={name: tasks}),
    )


def answered(
    command: AnyCommand, outcome: Outcome, profile: Profile = V39, state: ClusterState | None = None
) -> Answer:
    """The answer to a completed command."""
    return answer_to(CompletedCommand(command, outcome, state or state_with("a"), profile, PLUGINS))


INFO = {
    "name": "a",
    "config": {"connector.class": "X"},
    "tasks": [{"connector": "a", "task": 0}, {"connector": "a", "task": 1}],
    "type": "source",
}


def test_a_creation_returns_its_location() -> None:
    """A creation gets 201 and a `Location`.

    The release escapes part of the name; our own dialect escapes the whole name.
    """
    answer = answered(commands.PutConfig("a", {}), Outcome(created=True))
    assert (answer.status, answer.body) == (201, INFO)
    command = commands.CreateConnector("ä/b c", {})
    answer = answered(command, Outcome(created=True), state=state_with("ä/b c"))
    assert answer.headers == {"location": "/connectors/%C3%A4/b%20c"}
    answer = answered(command, Outcome(created=True), OURS, state=state_with("ä/b c"))
    assert answer.headers == {"location": "/connectors/%C3%A4%2Fb%20c"}


def test_a_change_returns_the_config() -> None:
    """A changed connector gets 200 and its new config."""
    for command in (commands.PutConfig("a", {}), commands.PatchConfig("a", {})):
        answer = answered(command, Outcome())
        assert (answer.status, answer.body, answer.headers) == (200, INFO, {})


def test_a_creation_with_offsets_gets_200_and_a_location() -> None:
    """A creation with offsets gets 200, the offsets' outcome and the usual `Location` (KIP-995)."""
    command = commands.CreateConnector("a", {}, initial_offsets=(OffsetChange({}),))
    outcome = Outcome(created=True, facts={"initial_offsets_response": "done"})
    answer = answered(command, outcome, OURS)
    assert (answer.status, answer.body) == (200, {**INFO, "initial_offsets_response": "done"})
    assert answer.headers == {"location": "/connectors/a"}


@pytest.mark.parametrize(
    ("command", "release", "ours"),
    [
        (commands.DeleteConnector("a"), 204, 204),
        (commands.PauseConnector("a"), 202, 202),
        (commands.ResumeConnector("a"), 202, 202),
        (commands.StopConnector("a"), 204, 204),
        (commands.RestartConnector("a"), 204, 204),
        (commands.RestartTask("a", 0), 204, 204),
        (commands.ResetTopics("a"), 202, 200),
        (commands.SetLoggerLevel("a", "INFO"), 204, 204),
        (commands.PublishTasks("a", ()), 204, 204),
        (commands.FenceTasks("a"), 204, 204),
    ],
)
def test_answers_without_a_body_have_no_content_type(
    command: AnyCommand, release: int, ours: int
) -> None:
    """The answer has neither body nor content type.

    A reset of topics gets 200 in KIP-558, but 202 in Kafka.
    """
    assert answered(command, Outcome())[:3] == (release, "", None)
    assert answered(command, Outcome(), OURS)[:3] == (ours, "", None)


def test_offset_changes_return_their_message() -> None:
    """The answer has a message; under KIP-875 a reset gets 204 without one."""
    outcome = Outcome(message="done")
    assert answered(commands.AlterOffsets("a", ()), outcome)[:2] == (200, {"message": "done"})
    assert answered(commands.AlterOffsets("a", ()), outcome, OURS)[:2] == (200, {"message": "done"})
    assert answered(commands.ResetOffsets("a"), outcome)[:2] == (200, {"message": "done"})
    assert answered(commands.ResetOffsets("a"), outcome, OURS)[:2] == (204, "")


def test_restart_marks_restarting_instances() -> None:
    """A restart gets 202 and the statuses; restarting instances are RESTARTING (KIP-745)."""
    state = state_with("a", connector=State.RUNNING, t0=State.FAILED, t1=State.RUNNING)
    outcome = Outcome(facts={"restarting": (0,)})
    answer = answered(commands.RestartConnector("a", True, True), outcome, state=state)
    assert answer.status == 202
    assert answer.body["connector"] == {"state": "RUNNING", "worker_id": "w:1"}
    assert [task["state"] for task in answer.body["tasks"]] == ["RESTARTING", "RUNNING"]
    alone = Outcome(facts={"restarting": (None,)})
    answer = answered(commands.RestartConnector("a", False, True), alone, state=state)
    assert answer.body["connector"]["state"] == "RESTARTING"


def test_a_restart_without_status_is_refused_after_its_record() -> None:
    """A release answers 404 if it finds no status after its restart record."""
    outcome = Outcome(refusal=Rejected(Reason.NO_STATUS, "Status for connector a not found"))
    answer = answered(commands.RestartConnector("a", True), outcome)
    assert (answer.status, answer.body["message"]) == (404, "Status for connector a not found")


@pytest.mark.parametrize("reason", Reason)
def test_every_refusal_has_a_status(reason: Reason) -> None:
    """Each reason becomes an error response, with its text or null."""
    answer = refused(Rejected(reason, None)).answer()
    assert answer.status >= 400
    if reason is not Reason.NOT_OFFERED:
        assert answer.body["message"] is None
        assert refused(Rejected(reason, "why")).answer().body["message"] == "why"
