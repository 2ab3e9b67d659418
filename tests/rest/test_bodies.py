"""Request bodies: the command that they describe, and the errors of each release."""

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.releases.profiles import KIP, Profile
from controlplane.rest import bodies
from controlplane.rest.bodies import Offset
from controlplane.rest.errors import RestError
from tests.conftest import sampled
from tests.jars import SHORT_LIVED, java
from tests.oracle.kafka import harness, release_path
from tests.patience import PATIENCE_S
from tests.rest.jackson.corpus import BAD_CHARACTERS, BODIES, INTEGERS, LIMITS
from tests.rest.plane import orders_plane

READERS: dict[str, Callable[[bytes | None, Profile], Any]] = {
    "create": bodies.create,
    "config": bodies.config,
    "offsets": bodies.alteration,
}
OURS = Profile.of(KIP)
NEWEST = Profile.of("4.3")
V39 = Profile.of("3.9.1")

RELEASES = ("2.8.2", "3.4.1", "3.9.1", "4.2.0", "4.3.0")
SOURCES = Path(__file__).parent / "jackson"
"""Folder of `Bodies.java`."""

STREAM = "org.glassfish.jersey.message.internal.ReaderInterceptorExecutor$UnCloseableInputStream"
HIDDEN = "[Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: 1"


def refusal(read: Callable[..., Any], body: bytes | None, profile: Profile) -> tuple[int, str]:
    """Status and message with which a body is refused."""
    with pytest.raises(RestError) as refused:
        read(body, profile)
    answer = refused.value.answer()
    return answer.status, answer.body["message"]


def verdict_on(kind: str, body: bytes, profile: Profile) -> str:
    """Jackson's verdict on a body: `OK`, or `NO` with the message. Later checks are ignored."""
    try:
        READERS[kind](body, profile)
    except RestError as refused:
        message = str(refused)
        if not message.startswith(("Cannot invoke ", "Partitions / offsets need")):
            return f"NO{message}"
    return "OK"


def kafkas(release: str, requests: list[tuple[str, bytes]]) -> Iterator[str | None]:
    """Verdicts of Kafka's classes with their Jackson; None if the release has no such request."""
    lines = "".join(f"{kind} {base64.b64encode(body).decode()}\n" for kind, body in requests)
    path = os.pathsep.join((str(harness(SOURCES)), release_path(release)))
    command = [str(java()), "-Xmx128m", *SHORT_LIVED, "-cp", path, "Bodies"]
    done = subprocess.run(
        command, input=lines, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    for line in done.stdout.splitlines():
        yield (
            None
            if line == "-"
            else base64.b64decode(line).decode().replace("Bodies$Stream", STREAM)
        )


@pytest.mark.java
@pytest.mark.parametrize("release", sampled(RELEASES, "2.8.2", "3.9.1", "4.3.0"))
def test_messages_are_jacksons(release: str) -> None:
    """For 300 bodies, mostly malformed, our messages equal those of the release's worker."""
    requests = [(kind, body) for kind, samples in BODIES.items() for body in samples]
    requests += [("config", body) for body in BAD_CHARACTERS]
    requests += [(kind, body) for kind in BODIES for body in INTEGERS]
    wrong = [
        f"{kind} {body!r}\n  Kafka: {theirs}\n  ours:  {ours}"
        for (kind, body), theirs in zip(requests, kafkas(release, requests), strict=True)
        if theirs is not None and theirs != (ours := verdict_on(kind, body, Profile.of(release)))
    ]
    assert not wrong, "\n".join(wrong)


ANY = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"


@pytest.mark.parametrize(
    ("body", "text", "column"),
    [
        (b'{"a" 1}', "Unexpected character ('1' (code 49)): was expecting a colon to separate", 7),
        (b'{"a":tru}', f"Unrecognized token 'tru': was expecting {ANY}", 10),
        (b'{"a":01}', "Invalid numeric value: Leading zeroes not allowed", 7),
        (b'{"a":"\xff"}', "Invalid UTF-8 start byte 0xff", 8),
        (b'{"a":true\xc2\xa0}', "Invalid UTF-8 middle byte 0xc2", 11),
        (b'{"a":true\x80}', "Invalid UTF-8 start byte 0x80", 10),
        (b"{} {}", "Trailing token (of type START_OBJECT) found after value (bound as ", 4),
        (b'{"a":{}}', "Cannot deserialize value of type `java.lang.String` from Object value", 6),
    ],
)
def test_a_release_fails_at_a_bad_body(body: bytes, text: str, column: int) -> None:
    """A worker answers 500 with Jackson's message and the position in the body."""
    status, message = refusal(bodies.config, body, V39)
    assert status == 500
    assert message.startswith(text)
    assert f"\n at {HIDDEN}, column: {column}]" in message


@pytest.mark.parametrize("body", [None, b"", b" \n", b" null "])
def test_a_release_fails_at_a_missing_body(body: bytes | None) -> None:
    """A worker answers a missing body with the JVM's message about a null."""
    message = 'Cannot invoke "java.util.Map.get(Object)" because "connectorConfig" is null'
    assert refusal(bodies.config, body, V39) == (500, message)


@pytest.mark.parametrize(
    ("read", "body", "field"),
    [
        (bodies.config, b"{", "the body, line 1, column 2"),
        (bodies.config, b'{\n "a": {}}', "a, line 2, column 7"),
        (bodies.create, b'{"name":"x","config":{"a":[]}}', "config.a, line 1, column 27"),
        (bodies.create, b'{"config":{},"foo":1}', "foo, line 1, column 22"),
        (bodies.alteration, b'{"offsets":[{"partition":1}]}', "offsets[0].partition, line 1"),
    ],
)
def test_the_own_profile_names_the_invalid_field(
    read: Callable[..., Any], body: bytes, field: str
) -> None:
    """Our own profile answers 400, and the message names the field."""
    status, message = refusal(read, body, OURS)
    assert status == 400
    assert f". Look at {field}" in message
    assert message.startswith(refusal(read, body, NEWEST)[1].partition("(class")[0].split("\n")[0])


def test_the_own_profile_names_the_missing_field() -> None:
    """Our dialect names the missing field instead of a null pointer."""
    assert refusal(bodies.config, None, OURS) == (400, "The body of the request is missing")
    assert refusal(bodies.create, b"{}", OURS) == (400, "The field config is missing")


def test_scalars_are_texts() -> None:
    """Numbers and booleans keep their spelling; null stays; the last of equal keys wins."""
    body = b'{"a":1.50,"b":true,"c":null,"d":1e3,"e":"x","e":"y","f":-0}'
    assert bodies.config(body, V39) == {
        "a": "1.50", "b": "true", "c": None, "d": "1e3", "e": "y", "f": "-0",
    }  # fmt: skip


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_bodies_come_in_any_encoding(encoding: str) -> None:
    """The encoding is guessed from the first bytes, as in Jackson."""
    assert bodies.config('{"ä":"😀"}'.encode(encoding), V39) == {"ä": "😀"}


def test_text_after_the_value_is_ignored_up_to_3_6() -> None:
    """Text after the JSON value is ignored up to 3.6, and refused from 3.7 on."""
    assert bodies.config(b'{"a":"b"} or so', Profile.of("3.6.2")) == {"a": "b"}
    assert refusal(bodies.config, b'{"a":"b"} or so', Profile.of("3.7.0"))[0] == 500


def test_initial_state_follows_the_release() -> None:
    """A field that a release does not know is an error there (KIP-980, KIP-995)."""
    body = b'{"name":"x","config":{},"initial_state":"paused"}'
    assert bodies.create(body, V39).initial_state == "PAUSED"
    status, message = refusal(bodies.create, body, Profile.of("3.6.2"))
    assert status == 500
    assert message.startswith('Unrecognized field "initial_state"')
    assert '(2 known properties: "config", "name"])' in message


def test_offsets_keep_their_numbers() -> None:
    """Offsets keep the type of their numbers, at any size and any depth."""
    body = b'{"offsets":[{"partition":{"a":123456789012345678901,"b":1.0},"offset":{"c":[{}]}},{}]}'
    assert bodies.alteration(body, V39) == [
        Offset({"a": 123456789012345678901, "b": 1.0}, {"c": [{}]}),
        Offset(None, None),
    ]


@pytest.mark.parametrize("body", [b'{"offsets":[]}', b'{"offsets":null}', b"{}"])
def test_offsets_are_needed(body: bytes) -> None:
    """An alteration without offsets gets 400, with Connect's message in every dialect."""
    expected = 400, "Partitions / offsets need to be provided for an alter offsets request"
    assert refusal(bodies.alteration, body, V39) == expected
    assert refusal(bodies.alteration, body, OURS) == expected


def test_only_our_dialect_reads_offsets_in_the_form_of_the_kip() -> None:
    """Our dialect reads offsets in the form of KIP-875; a release refuses that form."""
    body = b'{"offsets":{"sink":[{"partition":{"topic":"t","partition":0},"offset":{"offset":5}}]}}'
    assert bodies.alteration(body, OURS) == [
        Offset({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 5}, "sink")
    ]
    source = b'{"offsets":{"source":[{"partition":{"topic":"t"},"offset":{"offset":5}}]}}'
    assert bodies.alteration(source, OURS) == [Offset({"topic": "t"}, {"offset": 5}, "source")]
    assert refusal(bodies.alteration, body, V39)[0] == 500


@pytest.mark.parametrize(
    "body",
    [
        b'{"offsets":{"source":[{}],"sink":[{}]}}',
        b'{"offsets":{"other":[{}]}}',
        b'{"offsets":{"source":null}}',
        b'{"offsets":{}}',
    ],
)
def test_offsets_of_no_kind_are_refused(body: bytes) -> None:
    """An offsets object without exactly one of `source` and `sink` is refused."""
    assert refusal(bodies.alteration, body, OURS)[0] == 400


@pytest.mark.parametrize("profile", [Profile.of("3.7"), V39, OURS], ids=str)
@pytest.mark.parametrize("body", LIMITS, ids=len)
def test_oversized_bodies_are_refused(body: bytes, profile: Profile) -> None:
    """Digits, names and levels have limits in releases with Jackson 2.15 or later."""
    assert " exceeds the maximum allowed (" in refusal(bodies.create, body, profile)[1]


@pytest.mark.parametrize("release", ["2.3", "2.8", "3.6"])
def test_a_number_of_1200_digits_is_text_to_an_older_jackson(release: str) -> None:
    """The limits came with Jackson 2.15; the value of a config may be any number."""
    number = "9" * 1_200
    body = f'{{"name":"x","config":{{"a":{number}}}}}'.encode()
    assert bodies.create(body, Profile.of(release)).config == {"a": number}


def test_a_number_in_an_offset_is_bounded_under_every_release() -> None:
    """An offset of 5,000 digits is refused even for 3.6, whose Jackson 2.13 reads any number."""
    number = "9" * 5_000
    body = f'{{"offsets":[{{"partition":{{"a":{number}}}}}]}}'.encode()
    status, message = refusal(bodies.alteration, body, Profile.of("3.6"))
    assert status == 500
    assert message.startswith("Number value length (5000) exceeds the maximum allowed (1000, ")


@pytest.mark.parametrize(("release", "expected"), [("3.6", 500), ("4.1", 500), (KIP, 400)])
@pytest.mark.parametrize("levels", [251, 900, 100_000])
def test_a_deep_value_in_an_offset_is_refused(levels: int, release: str, expected: int) -> None:
    """A value is refused before its levels exceed Python's stack."""
    for body in (
        '{"offsets":[{"partition":{"a":' + "[" * levels + "]" * levels + "}}]}",
        '{"offsets":[{"partition":{"a":1},"offset":{"b":' + '{"c":' * levels,
    ):
        status, message = refusal(bodies.alteration, body.encode(), Profile.of(release))
        assert (status, "more than 250 levels" in message) == (expected, True)


async def test_a_list_in_an_offset_is_refused_as_such() -> None:
    """A value of few enough levels reaches the decision, which refuses every list."""
    deepest = json.loads("[" * 250 + "]" * 250)
    offset = {"partition": {"filename": deepest}, "offset": {"position": 1}}
    async with orders_plane() as (_, client):
        await client.put("/connectors/orders/stop")
        answer = await client.patch("/connectors/orders/offsets", json={"offsets": [offset]})
    assert (answer.status_code, answer.json()["message"]) == (
        400,
        "Offsets may only contain primitive types as values, but field filename contains ARRAY",
    )


@given(body=st.binary() | st.text().map(str.encode), kind=st.sampled_from(sorted(READERS)))
@pytest.mark.parametrize("release", ["2.8.2", "3.9.1", "4.3.0", KIP])
def test_any_bytes_are_read_or_refused(release: str, body: bytes, kind: str) -> None:
    """Any bytes are read or raise `RestError`."""
    verdict_on(kind, body, Profile.of(release))


CUT = b'{"name":"x\\u00e4\xc3\xa4","config":{"a":-1.5e+3,"b":[true,null]},"initial_state":"PAUSED"}'


@pytest.mark.parametrize("end", range(len(CUT)), ids=str)
def test_a_body_that_breaks_off_is_refused(end: int) -> None:
    """A body that ends too early is refused, wherever it ends."""
    assert refusal(bodies.create, CUT[:end], V39)[0] == 500
