"""Selection of Kafka's integration tests, with reasons for omitted and failing tests."""

from collections.abc import Mapping

HANDLE = "waits for the handle of a connector or a task in the JVM of the tests"
TIMEOUT = "sets the time-out of REST requests in the JVM of the tests"
ONE_WORKER = "stops one of several workers; here, they are one process"

FUTURE = "waits for the herder in the JVM of the tests"
LOGGER = "reads what a logger in the JVM of the tests has logged"

_RESTARTS = (
    "testFailedConnectorRestartBothConnectorAndTasks",
    "testFailedConnectorRestartOnlyConnector",
    "testFailedConnectorRestartOnlyFailedConnectorAndTasks",
    "testFailedTasksRestartBothConnectorAndTasks",
    "testFailedTasksRestartOnlyConnector",
    "testFailedTasksRestartOnlyTasks",
    "testFailedTasksRestartWithoutIncludeTasksNoop",
    "testMultiWorkerRestartBothConnectorAndTasks",
    "testMultiWorkerRestartOnlyConnector",
    "testOneFailedTasksRestartOnlyOneTasks",
    "testRunningConnectorAndTasksRestartBothConnectorAndTasks",
    "testRunningConnectorAndTasksRestartBothConnectorAndTasksNoop",
    "testRunningConnectorAndTasksRestartOnlyConnector",
    "testRunningConnectorAndTasksRestartOnlyFailedConnectorNoop",
)

LEFT_OUT: Mapping[str, Mapping[str, str]] = {
    "ConnectWorkerIntegrationTest": {
        "testAddAndRemoveWorker": ONE_WORKER,
        "testBrokerCoordinator": HANDLE,
        "testSourceTaskNotBlockedOnShutdownWithNonExistentTopic": HANDLE,
        "testCreateSinkConnectorWithStoppedInitialStateAndModifyOffsets": HANDLE,
        "testRequestTimeouts": TIMEOUT,
        "testPollTimeoutExpiry": TIMEOUT,
        "testCompactedDeletedOlderConnectorConfig": HANDLE,
        "testReconfigureConnectorWithFailingTaskConfigs": HANDLE,
        "testTasksConfigDeprecation": LOGGER,
    },
    "ConnectorRestartApiIntegrationTest": dict.fromkeys(_RESTARTS, HANDLE),
    "InternalTopicsIntegrationTest": {
        "testFailToCreateInternalTopicsWithMoreReplicasThanBrokers": FUTURE,
    },
}
"""Reasons by class and test, for tests that cannot run with workers as processes."""

TEST_CLASSES: Mapping[str, tuple[str, ...]] = {
    "ConnectorValidationIntegrationTest": (),
    "ConnectorClientPolicyIntegrationTest": (),
    "ConnectorTopicsIntegrationTest": (),
    "SourceConnectorsIntegrationTest": (),
    "OffsetsApiIntegrationTest": (),
    "ConnectWorkerIntegrationTest": (
        "testRestartFailedTask",
        "testTaskStatuses",
        "testPauseStopResume",
        "testStoppedState",
        "testCreateConnectorWithPausedInitialState",
        "testCreateSourceConnectorWithStoppedInitialStateAndModifyOffsets",
        "testDeleteConnectorCreatedWithPausedOrStoppedInitialState",
        "testPatchConnectorConfig",
        "testTasksMaxEnforcement",
        "testRuntimePropertyReconfiguration",
        "testPluginAliases",
    ),
    "InternalTopicsIntegrationTest": (
        "testCreateInternalTopicsWithDefaultSettings",
        "testCreateInternalTopicsWithFewerReplicasThanBrokers",
        "testFailToStartWhenInternalTopicsAreNotCompacted",
        "testStartWhenInternalTopicsCreatedManuallyWithCompactForBrokersDefaultCleanupPolicy",
    ),
    "ConnectorRestartApiIntegrationTest": (
        "testRestartUnknownConnector",
        "testRestartUnknownConnectorNoParams",
    ),
}
"""Classes with their selected tests (none: all), the quickest first."""

REASONS: Mapping[str, Mapping[str, str]] = {}
"""Reasons by class and test, for tests that fail on our service."""
