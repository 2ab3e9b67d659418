"""KIP-558, the topics that a connector uses: stored, shown and reset, sentence by sentence.

The tests write the records of active topics themselves, in place of running tasks.
"""

import msgspec
import pytest

from controlplane.core import views
from controlplane.core.codec import encode_status
from controlplane.core.context import DecisionSettings
from controlplane.core.fold import FateKind, Fold
from controlplane.core.records import ActiveTopic, Activity
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.settings import Configuration, WorkerSettings
from controlplane.settings.sources import flag_values
from controlplane.settings.worker_settings import decision_settings
from tests.controller.scene import STATUS, Crash, crash_after, entries
from tests.kips.service import (
    SINK_CONFIG,
    SOURCE_CONFIG,
    AskedService,
    configured,
    log_of,
    reported,
    running,
    serving,
    used,
)

TOPICS, RESET = "/connectors/orders/topics", "/connectors/orders/topics/reset"
FORBIDDEN = DecisionSettings(topic_tracking_allow_reset=False)


async def topics_of(service: AskedService, connector: str = "orders") -> set[str]:
    """The set of active topics of a connector."""
    shown = await service.shows(f"/connectors/{connector}/topics")
    listed = shown[connector]["topics"]
    assert len(listed) == len(set(listed))
    return set(listed)


class TestStoringAndReturning:
    """Storing and returning names of topics that are actively used by connectors."""

    async def test_active_topics_lie_in_the_status_topic(self, connect: AskedService) -> None:
        """The records lie in the status topic, beside the statuses."""
        keys = [key for key, _ in await connect.holds(STATUS)]
        assert "status-topic-t:connector-orders" in keys
        assert "status-connector-orders" in keys
        assert await topics_of(connect) == {"t", "u"}

    async def test_compaction_keeps_active_topics(self) -> None:
        """Compaction loses no information: the last record of each key is enough."""
        log = await running(used("orders", "t", None), used("orders", "u", 0), used("orders", "v"))
        assert await log.compact(STATUS) == 2
        async with serving(log) as service:
            assert await topics_of(service) == {"u", "v"}

    @pytest.mark.parametrize("swapped", [False, True])
    async def test_partitions_may_come_in_any_order(self, swapped: bool) -> None:
        """Partitions may be read in any order: the records of one key lie in one partition."""
        log = await log_of(configured("orders", SOURCE_CONFIG))
        await log.add_partitions(STATUS, 2)
        places = [
            (used("orders", "t"), 0),
            (used("orders", "u"), 1),
            (used("orders", "u", None), 1),
        ]
        for record, partition in [*places[1:], places[0]] if swapped else places:
            await log.append([msgspec.structs.replace(record, partition=partition)])
        async with serving(log) as service:
            assert await topics_of(service) == {"t"}

    async def test_every_worker_reads_active_topics_at_start(self) -> None:
        """A worker that starts later knows the active topics."""
        log = await running()
        for release in ("2.5", "3.9", KIP):
            async with serving(log, release) as service:
                assert await topics_of(service) == {"t", "u"}

    async def test_running_workers_read_later_records(self, connect: AskedService) -> None:
        """Running workers read records that are written later."""
        await connect.write_foreign(used("orders", "v", 1))
        assert await topics_of(connect) == {"t", "u", "v"}

    async def test_older_workers_ignore_active_topics(self) -> None:
        """2.4 ignores the unknown key, and accepts the other records."""
        old = Fold(Profile.of("2.4"))
        outcomes = [old.apply(entry) for entry in await entries(await running(), [STATUS])]
        fates = [outcome.kind for outcome in outcomes]
        assert fates.count(FateKind.IGNORED) == 3
        assert fates.count(FateKind.ACCEPTED) == 5


class TestFormat:
    """Format of the new status record."""

    def test_key_and_value_are_those_of_the_kip(self) -> None:
        """Key and value are those of the KIP's example, here without white space."""
        record = ActiveTopic("some-source", "foo", Activity("foo", "some-source", 0, 1579297899))
        key, value = encode_status(record, Profile.of("2.5"))
        assert key == b"status-topic-foo:connector-some-source"
        assert value == (
            b'{"topic":{"name":"foo","connector":"some-source","task":0,'
            b'"discoverTimestamp":1579297899}}'
        )

    @pytest.mark.parametrize("name", ["a:b", "x:connector-y", "status-topic-t:connector-z", ":"])
    async def test_a_colon_parts_the_names(self, connect: AskedService, name: str) -> None:
        """The key's first colon ends the topic's name; the connector's name may contain colons."""
        await connect.write_foreign(configured(name, SOURCE_CONFIG), used(name, "t.1_2-3"))
        assert views.active_topics(connect.state, name) == ["t.1_2-3"]

    async def test_a_value_means_that_the_topic_is_used(self, connect: AskedService) -> None:
        """The latest record of a topic and a connector counts."""
        await connect.write_foreign(used("orders", "v", None), used("orders", "v"))
        assert "v" in await topics_of(connect)

    async def test_a_tombstone_removes_the_topic(self, connect: AskedService) -> None:
        """A tombstone removes the topic of one connector only."""
        await connect.write_foreign(used("orders", "t", None))
        assert await topics_of(connect) == {"u"}
        assert await topics_of(connect, "sales") == {"t"}

    async def test_the_rest_of_the_value_decides_nothing(self, connect: AskedService) -> None:
        """Another task and another time leave the set as it is."""
        before = await topics_of(connect)
        await connect.write_foreign(used("orders", "t", 99))
        assert await topics_of(connect) == before

    async def test_the_last_task_is_known(self, connect: AskedService) -> None:
        """If several tasks report one topic, the last record wins."""
        await connect.write_foreign(
            used("orders", "t", 1), used("orders", "t", 0), used("orders", "t", 7)
        )
        activity = connect.state.status.active_topics["orders"]["t"]
        assert (activity.task, activity.discovered_at_ms) == (7, 1579297899)

    async def test_statuses_are_not_touched(self, connect: AskedService) -> None:
        """Statuses have keys with another prefix, whatever the connector's name."""
        before = connect.state.status
        await connect.write_foreign(
            configured("topic-orders", SOURCE_CONFIG), used("topic-orders", "t")
        )
        after = connect.state.status
        assert (after.connectors, after.tasks) == (before.connectors, before.tasks)


class TestRecording:
    """Recording active topics."""

    @pytest.mark.parametrize("release", [KIP, "3.9"])
    async def test_a_new_connector_has_used_none(self, release: str) -> None:
        """The set of topics of a new connector is empty."""
        async with serving(await running(), release) as service:
            made = {"name": "new", "config": SOURCE_CONFIG}
            assert (await service.status_and_message("POST", "/connectors", made))[0] == 201
            assert await topics_of(service, "new") == set()

    async def test_many_may_report_the_same(self, connect: AskedService) -> None:
        """Repeated records have one key, and count as one topic."""
        await connect.write_foreign(*(used("orders", "v", task) for task in (0, 1, 0, 1)))
        assert await topics_of(connect) == {"t", "u", "v"}

    async def test_repetitions_collapse(self) -> None:
        """Compaction leaves one record for each topic and connector."""
        log = await running(*(used("orders", "v", task) for task in (0, 1, 0, 1)))
        await log.compact(STATUS)
        async with serving(log) as service:
            keys = [key for key, _ in await service.holds(STATUS)]
            assert keys.count("status-topic-v:connector-orders") == 1
            assert await topics_of(service) == {"t", "u", "v"}


class TestResetting:
    """Resetting a connector's set of active topics."""

    async def test_the_set_only_grows(self, connect: AskedService) -> None:
        """New records add topics; topics that the connector stops using stay."""
        for topic in "vwx":
            before = await topics_of(connect)
            await connect.write_foreign(used("orders", topic))
            assert await topics_of(connect) == before | {topic}

    async def test_each_topic_gets_a_tombstone(self, connect: AskedService) -> None:
        """A reset writes one tombstone per topic of this connector, and no other record."""
        before = await connect.everything()
        await connect.ask("PUT", RESET)
        gone = [(f"status-topic-{topic}:connector-orders", None) for topic in "tu"]
        assert [record for record in await connect.everything() if record not in before] == gone
        assert await topics_of(connect, "sales") == {"t"}

    async def test_a_release_writes_tombstones_one_by_one(self) -> None:
        """A release writes the tombstones one by one, so a crash leaves some unwritten."""
        log = await running()
        async with serving(log, "3.9", stepped=crash_after("topic-0")) as service:
            with pytest.raises(Crash):
                await service.ask("PUT", RESET)
            assert await topics_of(service) == {"u"}

    async def test_tombstones_are_written_in_one_batch(self) -> None:
        """We write all tombstones in one batch: after a crash all are there.

        The KIP neither demands nor forbids this.
        """
        log = await running()
        async with serving(log, stepped=crash_after("topics")) as service:
            with pytest.raises(Crash):
                await service.ask("PUT", RESET)
            assert await topics_of(service) == set()

    async def test_the_last_record_counts(self, connect: AskedService) -> None:
        """Uses recorded after the reset count; earlier ones do not."""
        await connect.write_foreign(used("orders", "v"))
        await connect.ask("PUT", RESET)
        await connect.write_foreign(used("orders", "u"))
        assert await topics_of(connect) == {"u"}

    async def test_a_running_connector_can_be_reset(self, connect: AskedService) -> None:
        """A running connector can be reset, and keeps running."""
        before = await connect.shows("/connectors/orders/status")
        assert before["connector"]["state"] == "RUNNING"
        assert (await connect.status_and_message("PUT", RESET))[0] < 300
        assert await connect.shows("/connectors/orders/status") == before

    async def test_a_topic_in_use_comes_back(self, connect: AskedService) -> None:
        """A reset topic returns when a task reports it again."""
        await connect.ask("PUT", RESET)
        assert await topics_of(connect) == set()
        await connect.write_foreign(used("orders", "t", 1))
        assert await topics_of(connect) == {"t"}


class TestLifeOfAConnector:
    """Restarting, reconfiguring or deleting a connector."""

    async def test_a_restart_changes_nothing(self, connect: AskedService) -> None:
        """A restart keeps the active topics, whether or not it writes a record."""
        for query in ("", "?includeTasks=true"):
            assert (await connect.status_and_message("POST", f"/connectors/orders/restart{query}"))[
                0
            ] < 300
            assert await topics_of(connect) == {"t", "u"}

    async def test_another_config_changes_nothing(self, connect: AskedService) -> None:
        """A new config leaves the active topics as they are."""
        config = {**SOURCE_CONFIG, "tasks.max": "1"}
        assert (await connect.status_and_message("PUT", "/connectors/orders/config", config))[
            0
        ] == 200
        assert await topics_of(connect) == {"t", "u"}

    async def test_a_sink_keeps_the_topics_of_its_old_config(self, connect: AskedService) -> None:
        """The set also keeps topics that the sink never reads again."""
        config = {**SINK_CONFIG, "topics": "other"}
        assert (await connect.status_and_message("PUT", "/connectors/sales/config", config))[
            0
        ] == 200
        await connect.write_foreign(used("sales", "other"))
        assert await topics_of(connect, "sales") == {"t", "other"}

    async def test_a_reset_removes_topics_of_an_old_config(self, connect: AskedService) -> None:
        """A reset removes topics that a sink no longer reads."""
        config = {**SINK_CONFIG, "topics": "other"}
        await connect.ask("PUT", "/connectors/sales/config", config)
        await connect.ask("PUT", "/connectors/sales/topics/reset")
        await connect.write_foreign(used("sales", "other"))
        assert await topics_of(connect, "sales") == {"other"}

    async def test_a_half_made_reset_is_finished_by_another(self, connect: AskedService) -> None:
        """A second reset writes the tombstones that a crashed one has not written."""
        await connect.write_foreign(used("orders", "t", None))
        before = len(await connect.holds(STATUS))
        await connect.ask("PUT", RESET)
        written = (await connect.holds(STATUS))[before:]
        assert written == [("status-topic-u:connector-orders", None)]
        assert await topics_of(connect) == set()


class TestExtensions:
    """Extensions to Connect REST API."""

    async def test_get_shows_the_set(self, connect: AskedService) -> None:
        """GET shows the topics used since the creation or the last reset."""
        got = await connect.shows(TOPICS)
        assert list(got) == ["orders"]
        assert list(got["orders"]) == ["topics"]
        assert set(got["orders"]["topics"]) == {"t", "u"}

    async def test_put_resets_the_topics(self, connect: AskedService) -> None:
        """After a reset, the set contains later uses only."""
        await connect.ask("PUT", RESET)
        assert await connect.shows(TOPICS) == {"orders": {"topics": []}}
        assert (await connect.status_and_message("POST", RESET))[0] == 405

    @pytest.mark.parametrize(
        ("release", "status"), [(KIP, 200), ("2.5", 202), ("3.9", 202), ("4.3", 202)]
    )
    async def test_a_reset_is_answered_without_a_body(self, release: str, status: int) -> None:
        """A reset gets 200 in the KIP, and 202 in every release."""
        async with serving(await running(), release) as service:
            assert await service.status_and_message("PUT", RESET) == (status, "")

    async def test_the_connectors_state_makes_no_difference(self, connect: AskedService) -> None:
        """A failed or paused connector can be reset; so can one without a status."""
        for state in ("FAILED", "PAUSED", None):
            await connect.write_foreign(reported("orders", state), used("orders", "t"))
            assert (await connect.status_and_message("PUT", RESET))[0] < 300
            assert await topics_of(connect) == set()

    async def test_topics_of_a_deleted_connector_can_be_reset(self, connect: AskedService) -> None:
        """A deleted connector can be reset repeatedly; so can one that never existed."""
        await connect.ask("DELETE", "/connectors/orders")
        for target in (RESET, RESET, "/connectors/nobody/topics/reset"):
            assert (await connect.status_and_message("PUT", target))[0] < 300
        assert await topics_of(connect) == set()

    @pytest.mark.parametrize(("release", "end"), [(KIP, ""), ("2.5", "."), ("4.3", ".")])
    async def test_a_forbidden_reset_gets_403(self, release: str, end: str) -> None:
        """A forbidden reset gets 403; only the releases' message ends with a full stop."""
        async with serving(await running(), release, worker=FORBIDDEN) as service:
            answer = await service.ask("PUT", RESET)
            message = f"Topic tracking reset is disabled{end}"
            assert answer.body == {"error_code": 403, "message": message}
            assert answer.status == 403
            assert await topics_of(service) == {"t", "u"}

    @pytest.mark.parametrize(("method", "target"), [("GET", TOPICS), ("PUT", RESET)])
    async def test_older_releases_answer_404(self, method: str, target: str) -> None:
        """2.4 answers both paths with 404."""
        async with serving(await running(), "2.4") as old:
            assert await old.status_and_message(method, target) == (404, "HTTP 404 Not Found")


class TestConfiguration:
    """Configuration."""

    def test_both_settings_are_true_by_default(self) -> None:
        """Both settings are true by default."""
        worker = Configuration().make(WorkerSettings, decision_settings)
        assert worker.topic_tracking_enable is True
        assert worker.topic_tracking_allow_reset is True

    @pytest.mark.parametrize("key", ["topic.tracking.enable", "topic.tracking.allow.reset"])
    @pytest.mark.parametrize("value", ["true", "false"])
    def test_each_setting_has_its_key(self, key: str, value: str) -> None:
        """Each of the two settings works without the other."""
        configuration = Configuration(flag_values([("--override", key, value)]))
        worker = configuration.make(WorkerSettings, decision_settings)
        others = {"topic.tracking.enable", "topic.tracking.allow.reset"} - {key}
        assert getattr(worker, key.replace(".", "_")) is (value == "true")
        assert all(getattr(worker, other.replace(".", "_")) for other in others)

    @pytest.mark.parametrize("release", [KIP, "3.9"])
    @pytest.mark.parametrize(("method", "target"), [("GET", TOPICS), ("PUT", RESET)])
    async def test_without_tracking_both_requests_are_forbidden(
        self, release: str, method: str, target: str
    ) -> None:
        """`topic.tracking.enable=false` forbids both requests."""
        off = DecisionSettings(topic_tracking_enable=False)
        async with serving(await running(), release, worker=off) as service:
            before = await service.everything()
            assert await service.status_and_message(method, target) == (
                403,
                "Topic tracking is disabled.",
            )
            assert await service.everything() == before

    @pytest.mark.parametrize("release", [KIP, "3.9"])
    async def test_without_resets_topics_are_shown_all_the_same(self, release: str) -> None:
        """`topic.tracking.allow.reset=false` forbids the reset only."""
        async with serving(await running(), release, worker=FORBIDDEN) as service:
            await service.write_foreign(used("orders", "v"))
            assert await topics_of(service) == {"t", "u", "v"}


class TestCompatibility:
    """Compatibility, Deprecation, and Migration Plan."""

    async def test_a_downgraded_worker_warns_of_each_record(self) -> None:
        """2.4 gives a reason for each record that it ignores, and reads all others."""
        status_entries = await entries(await running(), [STATUS])
        old = Fold(Profile.of("2.4"))
        reasons = [old.apply(entry).reason for entry in status_entries]
        topics = [(entry.key or b"").startswith(b"status-topic-") for entry in status_entries]
        assert [bool(reason) for reason in reasons] == topics
        assert set(old.snapshot().status.connectors) == {"orders", "sales"}

    async def test_workers_are_upgraded_in_any_order(self) -> None:
        """Old and new workers read one log; each reads all records that it knows."""
        log = await running()
        for release in (KIP, "2.4", "3.9", "2.5", "2.3"):
            fold = Fold(Profile.of(release))
            fold.apply_all(await entries(log, [STATUS]))
            status = fold.snapshot().status
            assert set(status.tasks["orders"]) == {0, 1}
            has_status_topics = Profile.of(release).status_topics
            assert set(status.active_topics.get("orders", ())) == (
                {"t", "u"} if has_status_topics else set()
            )
