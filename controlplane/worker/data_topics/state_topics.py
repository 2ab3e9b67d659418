"""Protection of the topics with the control plane's state against records of tasks."""

from controlplane.connect.errors import ConnectError


def refuse_state_topic(connector: str, topic: str, state_topics: frozenset[str]) -> None:
    """Refuse records of a connector's task for a topic that has the control plane's state.

    A record there could replace the config of any connector, without its validation. Kafka leaves
    this check to the ACLs of the brokers; an embedded log has none.

    Raises:
        ConnectError: the topic has the state of the control plane.
    """
    if topic in state_topics:
        raise ConnectError(
            f"Connector {connector} cannot write records to topic {topic}, which has the state "
            "of the control plane: choose another topic"
        )
