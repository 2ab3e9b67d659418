"""KIP-995: failed steps, competing requests, old offsets; and its test plan."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controlplane.controller import ExternalActionFailed, NotWritten
from controlplane.core import views
from controlplane.core.plan import AlterGroup, AnyAction
from controlplane.core.records import Target
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.logs.log import Record
from controlplane.plane import ControlPlane, Surroundings
from controlplane.rest.endpoints.pure_requests import command_of
from tests.controller.scene import CONFIG, OFFSETS
from tests.kips.creation import AT_100, LEFT_OVER, NEW, SET_HERE, creation_body, left_of, offsets_of
from tests.kips.service import (
    FUSSY_SOURCE,
    PLUGINS,
    SINK_CONFIG,
    SOURCE_CONFIG,
    AskedService,
    Beyond,
    RefusingLog,
    came_to,
    log_of,
    running,
    serving,
)
from tests.patience import NEVER_RETRIED
from tests.scenario.playback import played


@pytest.fixture
async def connect() -> AsyncIterator[AskedService]:
    """The small cluster; an earlier connector `new` has left offsets."""
    async with serving(await running(*LEFT_OVER)) as service:
        yield service


def wiping(record: Record) -> bool:
    """True for a record that wipes an offset (step 3 of KIP-995)."""
    return record.topic == OFFSETS and record.value is None


def setting(record: Record) -> bool:
    """True for a record that sets an offset (step 4 of KIP-995)."""
    return record.topic == OFFSETS and record.value is not None


def creating(record: Record) -> bool:
    """True for a record that creates the connector (step 5 of KIP-995)."""
    return record.topic == CONFIG


AT_5 = {"sink": [{"partition": {"topic": "t", "partition": 0}, "offset": {"offset": 5}}]}
AS_SINK = creation_body(AT_5, SINK_CONFIG)
OLD = AlterGroup("new", "connect-new", (("t", 0, 99), ("t", 1, 99)))
"""Offsets that an earlier sink of that name has committed."""


class Refusing(Beyond):
    """A Kafka cluster that alters a group as requested, and then reports a failure."""

    async def perform(self, action: AnyAction) -> None:
        """Perform the action; then raise for an alteration other than `OLD`."""
        await super().perform(action)
        if isinstance(action, AlterGroup) and action != OLD:
            raise ExternalActionFailed("Failed to alter consumer group offsets for connector new")


class TestFailures:
    """Proposed Changes – where a step fails."""

    @pytest.mark.parametrize(
        ("extra_config", "step"),
        [({}, "wipe the existing offsets"), ({"file": "f"}, "set the initial offsets")],
        ids=["3", "4"],
    )
    async def test_the_error_names_the_failed_step(
        self, connect: AskedService, extra_config: Any, step: str
    ) -> None:
        """The error names the step at which the connector's hook throws; nothing is written."""
        before = await connect.everything()
        config = {**SOURCE_CONFIG, "connector.class": FUSSY_SOURCE, **extra_config}
        status, message = await connect.status_and_message(
            "POST", "/connectors", creation_body(config=config)
        )
        assert status == 500
        assert message.startswith(f"Failed to {step} of connector new: Offset")
        assert await connect.everything() == before

    @pytest.mark.parametrize(
        ("refuses", "step"),
        [
            (wiping, "Failed to wipe the existing offsets of connector new"),
            (setting, "Failed to set the initial offsets of connector new"),
            (creating, "Error writing connector configuration to Kafka"),
        ],
        ids=["3", "4", "5"],
    )
    async def test_the_error_names_the_step_that_cannot_be_written(
        self, refuses: Any, step: str
    ) -> None:
        """If the log refuses the records of one of the three steps, the error names the step."""
        log = RefusingLog()
        await log_of(*LEFT_OVER, log=log)
        async with serving(log, limits=NEVER_RETRIED) as service:
            log.refuses = refuses
            with pytest.raises(NotWritten, match=step):
                await service.ask("POST", "/connectors", creation_body())

    async def test_4_new_offsets_of_a_sink_are_removed(self) -> None:
        """The error names the step; old offsets are gone, and the new ones are removed."""
        beyond = Refusing()
        await beyond.perform(OLD)
        async with serving(await log_of(), beyond=beyond) as service:
            step = "Failed to set the initial offsets of connector new: "
            why = "Failed to alter consumer group offsets for connector new"
            assert await service.status_and_message("POST", "/connectors", AS_SINK) == (
                500,
                step + why,
            )
            assert await beyond.group_offsets("connect-new") == ()
            assert await service.shows("/connectors") == []
            assert await service.everything() == []

    @pytest.mark.parametrize("refuses", [setting, creating], ids=["4", "5"])
    async def test_written_offsets_are_removed(self, refuses: Any) -> None:
        """Recovery removes all new and old offsets, and no connector remains.

        The same creation then starts without offsets.
        """
        log = RefusingLog()
        await log_of(*LEFT_OVER, log=log)
        async with serving(log, limits=NEVER_RETRIED) as service:
            log.refuses = refuses
            with pytest.raises(NotWritten):
                await service.ask("POST", "/connectors", creation_body())
            log.refuses = None
            assert (await service.status_and_message("DELETE", NEW))[
                0
            ] == 404  # waits until recovery has ended the command
            assert left_of(service) == {}
            made = {"name": "new", "config": SOURCE_CONFIG}
            assert (await service.status_and_message("POST", "/connectors", made))[0] == 201
            assert await offsets_of(service) == []


class TestRace:
    """Validate offset before connector creation."""

    async def test_a_second_creation_without_offsets_is_refused(
        self, connect: AskedService
    ) -> None:
        """The first of two requests for one name has offsets; the second, without, is refused."""
        both = creation_body(), {"name": "new", "config": SOURCE_CONFIG}
        first, second = await asyncio.gather(
            *(connect.status_and_message("POST", "/connectors", body) for body in both)
        )
        assert (first[0], second) == (200, (409, "Connector new already exists"))
        assert await offsets_of(connect) == AT_100

    async def test_a_second_creation_with_offsets_is_refused(self, connect: AskedService) -> None:
        """The second request, with offsets, is refused and neither wipes nor sets any."""
        before = left_of(connect)
        both = {"name": "new", "config": SOURCE_CONFIG}, creation_body()
        first, second = await asyncio.gather(
            *(connect.status_and_message("POST", "/connectors", body) for body in both)
        )
        assert (first[0], second) == (201, (409, "Connector new already exists"))
        assert left_of(connect) == before

    async def test_nothing_to_clean_up_after_a_check(self, connect: AskedService) -> None:
        """Config, offsets and name are checked before the first record is written."""
        before = await connect.everything()
        nested: Any = [{"partition": {"table": {}}, "offset": None}]
        refused = [
            await connect.status_and_message("POST", "/connectors", body)
            for body in (
                creation_body(config={"name": "other"}),
                creation_body(nested),
                creation_body(name="orders"),
            )
        ]
        assert [status for status, _ in refused] == [400, 400, 409]
        assert await connect.everything() == before


class TestRemanentOffsets:
    """Remanent offsets from connectors with same name."""

    async def test_offsets_of_a_deleted_connector_are_wiped(self, connect: AskedService) -> None:
        """Creation wipes the offsets of a deleted connector before it writes the new ones."""
        await connect.ask("DELETE", "/connectors/orders")
        before = len(await connect.holds(OFFSETS))
        body = {"name": "orders", "config": SOURCE_CONFIG, "initial_offsets": AT_100}
        assert (await connect.status_and_message("POST", "/connectors", body))[0] == 200
        assert (await connect.holds(OFFSETS))[before:] == [
            ('["orders",{"table":"a"}]', None),
            ('["orders",{"table":"b"}]', None),
            ('["orders",{"table":"a"}]', '{"pos":100}'),
        ]
        assert await offsets_of(connect, "orders") == AT_100

    async def test_offsets_of_an_earlier_sink_are_wiped(self) -> None:
        """A creation also wipes the offsets of an earlier sink's consumer group."""
        beyond = Beyond()
        await beyond.perform(OLD)
        async with serving(await log_of(), beyond=beyond) as service:
            assert (await service.status_and_message("POST", "/connectors", AS_SINK))[0] == 200
            assert await beyond.group_offsets("connect-new") == (("t", 0, 5),)


class TestCompatibility:
    """Compatibility, Deprecation, and Migration Plan."""

    async def test_the_records_are_those_of_an_alteration(self, connect: AskedService) -> None:
        """Offset records equal those of a `PATCH`, config records those of a plain creation."""
        async with serving(await log_of()) as plain:
            await plain.ask("POST", "/connectors", {"name": "new", "config": SOURCE_CONFIG})
            await plain.ask("PUT", f"{NEW}/stop")
            await plain.ask("PATCH", f"{NEW}/offsets", {"offsets": AT_100})
            config, *_ = await plain.holds(CONFIG)
            offsets = await plain.holds(OFFSETS)
        await connect.ask("POST", "/connectors", creation_body())
        assert (await connect.holds(CONFIG))[-1:] == [config]
        assert (await connect.holds(OFFSETS))[-1:] == offsets

    @pytest.mark.parametrize("release", ["3.5", "3.9", "4.3"])
    async def test_a_downgraded_worker_sees_nothing_special(self, release: str) -> None:
        """An older worker shows the offsets as if the connector had committed them."""
        log = await log_of()
        async with serving(log) as ours:
            await ours.ask("POST", "/connectors", creation_body())
        async with serving(log, release) as old:
            assert await old.shows(f"{NEW}/offsets") == {"offsets": AT_100}
            await old.write_foreign(came_to("new", {"table": "a"}, {"pos": 101}))
            (shown,) = (await old.shows(f"{NEW}/offsets"))["offsets"]
            assert shown["offset"] == {"pos": 101}


class TestPlan:
    """Test Plan."""

    @pytest.mark.parametrize(
        ("state", "target"), [(None, Target.STARTED), ("STOPPED", Target.STOPPED)]
    )
    async def test_a_single_process_keeps_initial_offsets(
        self, tmp_path: Path, state: str | None, target: Target
    ) -> None:
        """A single process keeps initial offsets, with and without a state, across restarts."""
        where = f"sqlite:///{tmp_path / 'state.db'}"
        around = Surroundings(plugins=PLUGINS)
        body = msgspec.json.encode(creation_body(initial_state=state))
        async with ControlPlane.open(where, around=around) as plane:
            command = command_of("POST", "/connectors", body, Profile.of(KIP))
            outcome = await plane.execute(command)
            assert outcome.facts == {"initial_offsets_response": SET_HERE}
        async with ControlPlane.open(where, around=around) as plane:
            assert views.target(plane.state, "new") is target
            (offset,) = views.source_offsets(plane.state, "new")
            assert (offset.partition, offset.offset) == ({"table": "a"}, {"pos": 100})

    @pytest.mark.parametrize("via", ["w1", "w2"])
    @pytest.mark.parametrize(
        ("state", "target"), [("", "STARTED"), (',"initial_state":"PAUSED"', "PAUSED")]
    )
    def test_the_leader_creates_the_connector(self, via: str, state: str, target: str) -> None:
        """The leader creates the connector for either worker, and both workers see it."""
        _, made, offsets, states = played(
            f"""\
cluster w1@kip w2@kip leader=w1
----

POST /connectors via={via}
{{"name":"new","config":{{"connector.class":"JdbcSource"}}{state},
 "initial_offsets":[{{"partition":{{"table":"a"}},"offset":{{"pos":100}}}}]}}
----

GET /connectors/new/offsets via=w2
----

view connectors
----
"""
        )[1]
        *way, answered = [line for line in made.printed if "config@" not in line][:-1]
        assert way == (["forwarded w2 -> w1"] if via == "w2" else [])
        assert answered.startswith('200 {"name":"new"')
        shown = '{"offsets":{"source":[{"partition":{"table":"a"},"offset":{"pos":100}}]}}'
        assert list(offsets.printed) == [f"200 {shown}"]
        assert target in states.printed[-1]

    async def test_a_failure_is_cleaned_up(self) -> None:
        """The error is reported, and the creation leaves nothing behind."""
        beyond = Refusing()
        async with serving(await log_of(), beyond=beyond) as service:
            assert (await service.status_and_message("POST", "/connectors", AS_SINK))[0] == 500
            assert await service.everything() == []
            assert await beyond.group_offsets("connect-new") == ()


class TestRejectedAlternatives:
    """Rejected Alternatives."""

    async def test_a_connector_with_offsets_may_start_at_once(self, connect: AskedService) -> None:
        """Offsets are accepted for a connector that starts at once."""
        assert (
            await connect.status_and_message(
                "POST", "/connectors", creation_body(initial_state="RUNNING")
            )
        )[0] == 200
        assert views.target(connect.state, "new") is Target.STARTED
        assert await offsets_of(connect) == AT_100
