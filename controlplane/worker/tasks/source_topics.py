"""Creation of the topics of one source task before their first record (KIP-158).

Kafka: `AbstractWorkerSourceTask#maybeCreateTopic`.
"""

from controlplane.worker.data_topics.clients import TopicCreator
from controlplane.worker.data_topics.topic_rules import TopicRules, WantedTopic
from controlplane.worker.drivers.author_thread import AuthorThread


class SourceTopics:
    """Topics of a source task, created by the rules of its connector."""

    def __init__(self, rules: TopicRules | None, thread: AuthorThread) -> None:
        """`rules` None: missing topics are left to the producer and the brokers.

        `thread` matches names: users' regular expressions may take long.
        """
        self._rules = rules
        self._thread = thread
        self._existing: set[str] = set()

    async def ensure(self, creator: TopicCreator, topics: set[str]) -> None:
        """Create the topics of this set that are missing.

        Raises:
            ConnectError: a topic cannot be created.
            MatchLimitExceeded: a regular expression takes too many steps.
        """
        if self._rules is None:
            return
        for name in sorted(topics - self._existing):
            topic: WantedTopic = await self._thread.call(self._rules.topic, name)
            await creator.ensure_topic(topic)
            self._existing.add(name)
