"""Tasks whose connector and worker name no converter."""

import pytest

from controlplane.connect import ConnectError
from controlplane.worker.connector_classes import ConnectorClasses
from controlplane.worker.records.conversion import Pipelines
from controlplane.worker.settings import RuntimeSettings


@pytest.mark.parametrize("missing", ["key.converter", "value.converter"])
def test_a_missing_converter_is_refused_with_a_remedy(missing: str) -> None:
    """The message names the setting, and the two places for it."""
    both = dict.fromkeys(
        ("key.converter", "value.converter"), "org.apache.kafka.connect.storage.StringConverter"
    )
    config = {name: value for name, value in both.items() if name != missing}
    remedy = f"has a {missing}: set it in the connector's config, or in the worker's file"
    with pytest.raises(ConnectError, match=remedy):
        Pipelines(ConnectorClasses(), RuntimeSettings()).source(config)
