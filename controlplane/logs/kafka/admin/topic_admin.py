"""Topics of a cluster: created, and their settings described."""

from collections.abc import Iterable, Mapping

from controlplane.logs.kafka.admin.bounded_retry import retried
from controlplane.logs.kafka.cluster import Cluster
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.protocol import admin_requests as requests
from controlplane.logs.kafka.protocol.admin_requests import TopicAnswer, TopicSpec
from controlplane.logs.kafka.protocol.error_codes import ErrorCode, described
from controlplane.logs.kafka.protocol.errors import RETRIABLE, topic_error
from controlplane.logs.log import LogError, LogNotUsable, LogUnavailable

_NO_CONTROLLER = "the cluster has no controller at the moment: try again"
_TRANSIENT = RETRIABLE | {ErrorCode.NOT_CONTROLLER}

_RIGHTS = {"created": "CREATE", "described": "DESCRIBE_CONFIGS"}
"""ACL operation that a request needs, by the verb in its error message."""


class TopicRefused(LogNotUsable):
    """A cluster refuses to create or describe a topic."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


class TopicAdmin:
    """Creates and describes topics of a cluster.

    Transient errors are retried for `ReadLimits.admin_patience_ms`.
    """

    def __init__(self, cluster: Cluster, limits: ReadLimits) -> None:
        self._cluster = cluster
        self._limits = limits

    async def create(self, topics: Iterable[TopicSpec]) -> frozenset[str]:
        """Create topics; return the names of those that did not exist before.

        When it returns, a broker knows the new topics and the leaders of their partitions. Existing
        topics are not changed, so a call can be repeated after an unknown outcome. If the broker
        timed out, a topic that this call created may count as an existing one.

        Raises:
            LogUnavailable: no controller answers in time.
            LogNotUsable: the cluster refuses a topic; other topics of the call may exist now.
        """
        by_name = {topic.name: topic for topic in topics}
        created: set[str] = set()

        async def attempt() -> None:
            open_ = [topic for name, topic in by_name.items() if name not in created]
            request = requests.create_topics_request(open_, self._limits.request_timeout_ms)
            answers = list(requests.created(await self._ask_controller(request)))
            created.update(answer.topic for answer in answers if not answer.code)
            _check(answers, "created", accepted=ErrorCode.TOPIC_ALREADY_EXISTS)

        await retried(attempt, self._limits)
        await retried(lambda: self._check_leaders(created), self._limits)
        return frozenset(created)

    async def _check_leaders(self, topics: Iterable[str]) -> None:
        """Raise `LogUnavailable` while a new topic has no leaders yet.

        The controller answers before the brokers know the topic.
        """
        layout = await self._cluster.layout(topics)
        for topic in topics:
            if layout.errors.get(topic) == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise topic_error(topic, layout.errors[topic])
            leaders = layout.leaders.get(topic, {}).values()
            if not leaders or not all(leader in layout.brokers for leader in leaders):
                raise LogUnavailable(f"topic {topic} has been created and has no leader yet")

    async def configs(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, str | None]]:
        """Return all settings of each topic, defaults included.

        Raises:
            LogUnavailable: no broker answers in time.
            LogNotUsable: a topic is missing, or this user may not see its settings.
        """
        topic_names = list(topics)

        async def attempt() -> Mapping[str, Mapping[str, str | None]]:
            response = await self._cluster.ask(requests.topic_configs_request(topic_names))
            configs = list(requests.topic_configs(response))
            _check([topic.answer for topic in configs], "described")
            return {topic.answer.topic: topic.values for topic in configs}

        return await retried(attempt, self._limits)

    async def _ask_controller(self, request: object) -> object:
        layout = await self._cluster.layout([])
        if layout.controller not in layout.brokers:
            raise LogUnavailable(_NO_CONTROLLER)
        return await self._cluster.send(layout.controller, request)


def _check(answers: Iterable[TopicAnswer], verb: str, accepted: int = ErrorCode.NONE) -> None:
    """Raise the first refusal; a transient error only if there is no refusal."""
    failures = [_failure(answer, verb) for answer in answers if answer.code not in {0, accepted}]
    failures.sort(key=lambda failure: isinstance(failure, LogUnavailable))
    for failure in failures:
        raise failure


def _failure(answer: TopicAnswer, verb: str) -> LogError:
    reason = f": {answer.message}" if answer.message else ""
    cause = described(answer.code, f"{_RIGHTS[verb]} on topic {answer.topic}")
    sentence = f"topic {answer.topic} cannot be {verb}: {cause}{reason}"
    if answer.code in _TRANSIENT:
        return LogUnavailable(sentence)
    return TopicRefused(sentence, answer.code)
