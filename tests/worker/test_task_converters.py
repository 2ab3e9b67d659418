"""Converters of tasks: the connector's, or else the worker's with the worker's settings."""

import msgspec
import pytest

from controlplane.connect import ConnectError, RecordHeader, SourceRecord
from controlplane.connect.data import INT32
from controlplane.worker.connector_classes import ConnectorClasses
from controlplane.worker.records.conversion import Pipelines
from controlplane.worker.settings import RuntimeSettings
from tests.worker.worker_fixture import QUICK, RecordedNotices, running


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


@pytest.mark.parametrize("empty", ["key.converter", "value.converter", "header.converter"])
def test_an_empty_converter_is_no_missing_one(empty: str) -> None:
    """A config provider may give an empty value. As in Kafka, the worker's does not replace it."""
    with pytest.raises(ConnectError, match=r"Class  could not be found\."):
        Pipelines(ConnectorClasses(), QUICK).source({empty: ""})


JSON = "org.apache.kafka.connect.json.JsonConverter"
PLAIN = {"header.converter.schemas.enable": "false"}


@pytest.mark.parametrize(
    ("config", "written"),
    [
        ({}, b"7"),
        ({"header.converter.schemas.enable": "true"}, b"7"),
        (
            {"header.converter": JSON},
            b'{"schema":{"type":"int32","optional":false},"payload":7}',
        ),
        ({"header.converter": JSON, **PLAIN}, b"7"),
    ],
)
def test_the_config_that_names_the_header_converter_has_its_settings(
    config: dict[str, str], written: bytes
) -> None:
    """The worker has a JsonConverter for headers without schemas."""
    worker = RuntimeSettings(
        key_converter=JSON, value_converter=JSON, header_converter=JSON, converter_settings=PLAIN
    )
    record = SourceRecord(topic="t", value="v", headers=(RecordHeader("n", 7, INT32),))
    converted = Pipelines(ConnectorClasses(), worker).source(config).converted(record)
    assert converted is not None
    assert converted.headers == (("n", written),)


@pytest.mark.parametrize("setting", ["key.converter", "value.converter", "header.converter"])
async def test_a_converter_of_the_worker_that_cannot_be_found_is_told_at_the_start(
    setting: str,
) -> None:
    """The worker starts; a warning names the setting, the class and the remedy."""
    converter = "io.confluent.connect.avro.AvroConverter"
    runtime = msgspec.structs.replace(QUICK, **{setting.replace(".", "_"): converter})
    notices = RecordedNotices()
    async with running(runtime=runtime, notices=notices):
        pass
    assert notices.of("converter_missing") == [
        {
            "setting": setting,
            "converter": converter,
            "advice": "name a converter that docs/connectors.md lists, or set "
            f"{setting} in each connector's config",
        }
    ]


@pytest.mark.parametrize(
    ("runtime", "unset"),
    [
        (QUICK, []),
        (RuntimeSettings(), ["key.converter", "value.converter"]),
        (RuntimeSettings(key_converter=JSON), ["value.converter"]),
    ],
)
async def test_settings_without_a_converter_are_told_at_the_start(
    runtime: RuntimeSettings, unset: list[str]
) -> None:
    """A warning names each; a header converter is optional. A found converter causes no warning."""
    notices = RecordedNotices()
    async with running(runtime=runtime, notices=notices):
        pass
    assert notices.of("converter_missing") == []
    assert notices.of("converter_not_set") == [
        {
            "setting": setting,
            "advice": f"set {setting} in the worker's file, or in each connector's config",
        }
        for setting in unset
    ]
