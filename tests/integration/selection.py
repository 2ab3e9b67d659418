"""Kafka's integration tests that run here, and reasons for those that fail on our service."""

from collections.abc import Mapping

TEST_CLASSES = (
    "ConnectorValidationIntegrationTest",
    "ConnectorClientPolicyIntegrationTest",
    "ConnectorTopicsIntegrationTest",
    "SourceConnectorsIntegrationTest",
    "OffsetsApiIntegrationTest",
)
"""Classes with tests that do without a worker in the JVM of the tests; the quickest first."""

REASONS: Mapping[str, Mapping[str, str]] = {}
"""Reasons by class and test, for tests that fail on our service."""
