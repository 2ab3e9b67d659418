"""Laws of the codec: decoding is total, and inverts encoding."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.codec import (
    decode_command,
    decode_config,
    decode_offset,
    decode_partition,
    decode_status,
    encode_command,
    encode_config,
    encode_status,
)
from controlplane.core.records import (
    ActiveTopic,
    Activity,
    CommandAccepted,
    CommandFinished,
    CommandRecord,
    CommandRefused,
    ConfigRecord,
    ConnectorConfig,
    ConnectorStatus,
    Invalid,
    LoggerLevel,
    RestartRequest,
    SessionKey,
    SourcePartition,
    State,
    Status,
    StatusRecord,
    Target,
    TargetState,
    TaskCommit,
    TaskConfig,
    TaskCount,
    TaskStatus,
    TopicRecord,
)
from controlplane.core.releases.profiles import Profile
from tests.laws.entries import profiles
from tests.offset_records import encode_offset

NEWEST = Profile.of("4.3")

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = text.filter(lambda name: not name.endswith("-"))
counts = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
scalars = (
    st.none() | st.booleans() | longs | st.floats(allow_nan=False, allow_infinity=False) | text
)
positive_zero = scalars.map(
    lambda value: 0.0 if value == 0.0 and isinstance(value, float) else value
)
flat = st.dictionaries(text, positive_zero, max_size=4)
tasks = st.integers(0, 2**31 - 1)

config_records: st.SearchStrategy[ConfigRecord] = st.one_of(
    st.builds(ConnectorConfig, text, st.none() | flat),
    st.builds(TargetState, text, st.none() | st.sampled_from(Target)),
    st.builds(TaskConfig, text, tasks, flat),
    st.builds(TaskCommit, text, counts),
    st.builds(TaskCount, text, counts),
    st.builds(SessionKey, st.binary(min_size=1, max_size=40), text, longs),
    st.builds(RestartRequest, text, st.booleans(), st.booleans()),
    st.builds(LoggerLevel, text, text),
)
statuses = st.builds(
    Status, st.sampled_from(State), st.none() | text, st.none() | text, counts, st.none() | text
)
topics = text.filter(lambda topic: topic and ":" not in topic)
status_records: st.SearchStrategy[StatusRecord] = st.one_of(
    st.builds(ConnectorStatus, text.filter(bool), st.none() | statuses),
    st.builds(TaskStatus, text, tasks, st.none() | statuses),
    st.builds(
        ActiveTopic,
        text.filter(bool),
        topics,
        st.none() | st.builds(Activity, text, text, counts, longs),
    ),
)
commands = st.dictionaries(text, text, max_size=3)
command_records: st.SearchStrategy[CommandRecord] = st.one_of(
    st.builds(CommandAccepted, text, longs, text, commands, st.none() | commands),
    st.builds(CommandFinished, text, longs, commands),
    st.builds(CommandRefused, text, longs, text, commands, text),
)


@given(config_records)
def test_config_records_come_back(record: ConfigRecord) -> None:
    """Decoding an encoded config record gives the same record."""
    assert decode_config(*encode_config(record, NEWEST), NEWEST) == record


@given(status_records)
def test_status_records_come_back(record: StatusRecord) -> None:
    """Decoding an encoded status record gives the same record."""
    assert decode_status(*encode_status(record, NEWEST), NEWEST) == record


@given(command_records)
def test_command_records_come_back(record: CommandRecord) -> None:
    """Decoding an encoded command record gives the same record."""
    assert decode_command(*encode_command(record)) == record


@given(text, flat, flat)
def test_offsets_come_back(
    name: str, partition: dict[str, object], offset: dict[str, object]
) -> None:
    """Decoding an encoded source offset gives the same partition and offset."""
    key, value = encode_offset(name, partition, offset)
    assert decode_partition(key, NEWEST) == SourcePartition(name, partition)
    assert decode_offset(value, NEWEST) == offset


any_bytes = st.none() | st.binary(max_size=60)
prefixes = st.sampled_from(
    [
        b"",
        b"connector-",
        b"task-",
        b"task-a-",
        b"commit-",
        b"target-state-",
        b"tasks-fencing-",
        b"session-key",
        b"restart-connector-",
        b"logger-cluster-",
        b"status-connector-",
        b"status-task-",
        b"status-task-a-",
        b"status-topic-",
        b"status-topic-t:",
    ]
)
keys = st.none() | st.builds(bytes.__add__, prefixes, st.binary(max_size=20))
json_like = st.sampled_from(
    [b'{"properties":', b'{"tasks":', b'{"state":"', b"[[[", b'{"topic":{"name":', b"\xff\xfe{"]
)
values = any_bytes | st.builds(bytes.__add__, json_like, st.binary(max_size=40))


@given(keys, values, profiles)
def test_decoding_is_total(key: bytes | None, value: bytes | None, profile: Profile) -> None:
    """Decoding any bytes gives a record or Invalid, in every profile; never an exception."""
    assert isinstance(decode_config(key, value, profile), TopicRecord)
    assert isinstance(decode_status(key, value, profile), TopicRecord)
    assert isinstance(decode_partition(key, profile), TopicRecord)
    assert isinstance(decode_command(key, value), TopicRecord | None)
    offset = decode_offset(value, profile)
    assert offset is None or isinstance(offset, dict | Invalid)
