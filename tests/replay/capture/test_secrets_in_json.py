"""Secrets are replaced in place, so each release still reads or rejects the same values."""

import gzip
import html
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st

from controlplane.core.codec import decode_config
from controlplane.core.entry import Entry, batch_of
from controlplane.core.java import json_codec
from controlplane.core.java.jackson_text import read_text, write_text
from controlplane.core.java.json_errors import StackOverflow, Undecodable
from controlplane.core.records import SessionKey
from controlplane.core.releases.profiles import PROFILES, Profile
from controlplane.core.state import Topics
from controlplane.core.text.redaction import HIDDEN, redacted_text, redacted_value
from replay.capture.encoded_text import without_secrets
from replay.capture.secrets import SecretPolicy, decrypted, dropped_secrets, encrypted_secrets
from tests.conftest import FEWER_EXAMPLES
from tests.laws.entries import deep

KEY = bytes(range(64))
SEALED = re.compile(r"\$\{encrypted:[\w-]+\}")


@pytest.fixture(scope="module")
def modes(tmp_path_factory: pytest.TempPathFactory) -> tuple[SecretPolicy, SecretPolicy]:
    """Both policies: secrets are dropped, or encrypted with `KEY`."""
    path = tmp_path_factory.mktemp("keys") / "key"
    path.write_bytes(b64encode(KEY))
    return dropped_secrets(Topics()), encrypted_secrets(Topics(), path)


def through(secrets: SecretPolicy, value: bytes, key: bytes = b"connector-a") -> bytes:
    """Archived value of a record."""
    (archived,) = secrets.without(batch_of([Entry("connect-configs", 0, 0, 1, key, value)])).values
    assert archived is not None
    return archived


# --- documents -------------------------------------------------------------------------------

HALF, PAIR = b"\xed\xa0\x80", b"\xed\xa0\xbd\xed\xb8\x80"
"""Surrogates encoded as UTF-8, which only older releases read."""

NUMBERS = [
    *(b"1", b"1.50", b"-0.0", b"01", b"-00.5", b"1" * 1001, b"0" + b"1" * 1001, b"1e2147483648"),
    *(
        b"0e-99999999999",
        b"0e2147483648",
        b"01e" + b"9" * 1001,
        b"0." + b"0" * 600 + b"e2147483648",
    ),
]
STRINGS = [
    *(b'"hunter2"', b'"hun\\u0074er2"', b'"\\ud800hunter2"', b'"hunter2' + HALF + b'"'),
    *(b'"hunter2' + PAIR + b'"', b'"\xf0\x9f\x98\x80hunter2"', b'"a${env:X}hunter2"', b'""'),
]
TEXTS = [
    *(b'"jdbc:x://u:hunter2@h/d"', b'"x:\\/\\/u:hunter2@h"', b'"password=hunter2;a=\\u00e9"'),
    *(b'"://u:hunter2' + HALF + b'@h"', b'"' + HALF + b"://u:hunter2@h" + PAIR + b'"'),
    *(b'"Authorization: Bearer hunter2"', b'"{\\"token\\":\\"hunter2\\",\\"n\\":1}"'),
    *(
        b'"cGFzc3dvcmQ9aHVudGVyMg=="',
        b'"x-cGFzc3dvcmQ9aHVudGVyMg"',
        b'"data:,cGFzc3dv\\ncmQ9aHVudGVyMg=="',
    ),
    *(b'"70617373776f72643d68756e74657232"', b'"dG9rZW46IGh1bnRlcjI\\u003d"'),
]
SECRETS = [
    b'"db.password"',
    b'"p\\u0061ssword"',
    b'"token"',
    b'"pa\xc5\xbfsword"',
    b'"token' + HALF + b'"',
]
PLAIN = [b'"n"', b'"url"', b'"\\ud800"', b'"' + HALF + b'"', b'""']
SPELLED_NAMES = [
    *(b'"x://u:hunter2@h"', b'"password=hunter2"', b'"\\u0074oken: hunter2' + HALF + b'"'),
    *(b'"Bearer hunter2\\ud800"', b'"pwd%3dhunter2' + PAIR + b'"'),
]
"""Names in which a secret is spelled out."""
OTHERS = [
    b"null",
    b"true",
    b'"v"',
    b'"' + HALF + b'"',
    b'"\xff"',
    *map(deep, (3, 1200, 2100, 5000)),
]
JUNK = [b"?", b"'", b",", b":", b"]", b"}", b'"', b"{", b'"open', b"\\", b"x", b"\xff", b"\0"]
ENDS = [
    *(b"", b"", b"\n", b" trailing", b" password=hunter2", b',"db.password":"hunter2"', b"\xff"),
    *(b" %70%61ss=hunter2", b"\0p\0w\0d\0=\0h\0u\0n\0t\0e\0r\0002", b" token hunter2"),
]
BEGINNINGS = [
    *(b"", b"", b"\0", b"\0\0", b"\0\0\0", b" \0", b"x", b"\xff", b"\xfe", b"?", b")]}',\n"),
    *(b"\xef\xbb\xbf", b"\xef\xbb\xbf\xef\xbb\xbf", b"\xef\xbb", b"\xfe\xff", b"\xff\xfe"),
    *(b"\0\0\xfe\xff", b"\xff\xfe\0\0", b"\0\0\xff\xfe", b"\xfe\xff\0\0", b"\0x\0\0"),
    *(b"x\0", b"{\0", b"{\0\0\0", b"\0\0\0{", b"\0{", b'"\0', b'\0"', b"1 ", b"null ", b"\1"),
    *(b"# a\n", b"//\n", b"/**/", b"<?xml version='1.0'?>", b"\0\0\0\0\1", b"\x1f\x8b", b"--- "),
]
"""Prefixes that break the JSON of a record, change its encoding, or leave it readable."""

JsonTokens = list[bytes]


def one_of(tokens: list[bytes]) -> st.SearchStrategy[JsonTokens]:
    """Strategy for one of the values, as a document of one token."""
    return st.sampled_from(tokens).map(lambda token: [token])


def nested(
    inner: st.SearchStrategy[JsonTokens], names: list[bytes]
) -> st.SearchStrategy[JsonTokens]:
    """Strategy for lists and maps of values."""
    members = st.lists(st.tuples(st.sampled_from(names), inner), max_size=4)
    return st.lists(inner, max_size=3).map(_list) | members.map(_map)


def _list(items: list[JsonTokens]) -> JsonTokens:
    return [b"[", *_separated(items), b"]"]


def _map(members: list[tuple[bytes, JsonTokens]]) -> JsonTokens:
    return [b"{", *_separated([[name, b":", *value] for name, value in members]), b"}"]


def _separated(items: list[JsonTokens]) -> JsonTokens:
    return [token for item in items for token in (b",", *item)][1:]


# --- disguises -------------------------------------------------------------------------------

SPELLED = [
    *("password=hunter2", "db.token: hunter2", '{"password":"hunter2"}', "x://u:hunter2@h/d"),
    *('{"password":"hun\\"t, er2"}', '{"tokens":["v",{"a":"hun]ter2"}]}', "Bearer hunter2"),
    *("<password>hunter2</password>", '<entry key="db.password">hunter2</entry>'),
    *('<p name="token" value="hunter2"/>', "<secret><![CDATA[hunter2]]></secret>"),
    *("a=b\ndb.password hunter2\nc=d", "password=hun\\\n  ter2", "secret = hunter2"),
]
"""Texts that show a secret to every reader."""


def as_json_string(text: str) -> str:
    return json_codec.encode(text).decode()


def as_escaped_letters(text: str) -> str:
    return "".join(rf"\u{ord(letter):04x}" for letter in text)


def percent_encoded(text: str) -> str:
    return "".join(char if char.isalnum() else f"%{ord(char):02X}" for char in text)


def all_percent_encoded(text: str) -> str:
    return "".join(f"%{ord(char):02x}" for char in text)


def as_references(text: str) -> str:
    return "".join(f"&#{ord(char)};" for char in text)


def with_zeros(text: str) -> str:
    return "".join(f"\0{char}" for char in text)


DISGUISES: list[Callable[[str], str]] = [
    *(as_json_string, as_json_string, as_escaped_letters, percent_encoded, all_percent_encoded),
    *(html.escape, as_references, with_zeros),
]


def _disguised(text: str, steps: list[Callable[[str], str]]) -> str:
    for step in steps:
        text = step(text)
    return text


disguised = st.builds(
    _disguised,
    st.sampled_from(SPELLED),
    st.lists(st.sampled_from(DISGUISES), max_size=2),
)


ENCODINGS: list[Callable[[bytes], bytes]] = [
    *(bytes, bytes, b64encode, lambda raw: b"0x" + raw.hex().encode(), gzip.compress),
    *(lambda raw: b" " + b64encode(raw), lambda raw: raw.decode("latin-1").encode("cp037")),
]


@st.composite
def unparsed(draw: st.DrawFn) -> bytes:
    """Strategy for values with a disguised or encoded secret; most of them are no JSON."""
    text = draw(disguised).encode()
    inside = draw(st.sampled_from([text, text, b'{"n":"a"} ' + text, b'{"n":' + text]))
    value = draw(st.sampled_from(BEGINNINGS)) + draw(st.sampled_from(ENCODINGS))(inside)
    return draw(st.sampled_from([bytes, bytes, *CHARSETS]))(value)


# --- documents with secrets ------------------------------------------------------------------

secret_values = st.recursive(
    one_of(STRINGS + NUMBERS + OTHERS), lambda inner: nested(inner, PLAIN), max_leaves=4
)
plain_values = one_of(NUMBERS + OTHERS + TEXTS) | disguised.map(
    lambda text: [json_codec.encode(text)]
)
members = st.tuples(st.sampled_from(SECRETS), secret_values) | st.tuples(
    st.sampled_from(PLAIN + SPELLED_NAMES), plain_values
)
maps = st.lists(members, max_size=6).map(_map)
documents = maps.map(lambda inner: _map([(b'"properties"', inner)])) | maps | plain_values


@st.composite
def documents_as_written(draw: st.DrawFn) -> bytes:
    """Strategy for JSON in any encoding, whole or cut off, that some, all or no releases read."""
    tokens = draw(documents)
    if draw(st.integers(0, 2)) == 0:
        tokens.insert(draw(st.integers(0, len(tokens))), draw(st.sampled_from(JUNK)))
    space = draw(st.sampled_from([b"", b" ", b"\r\n\t"]))
    value = space.join(tokens) + draw(st.sampled_from(ENDS))
    if draw(st.integers(0, 4)) == 0:
        value = value[: draw(st.integers(0, len(value)))]
    value = draw(st.sampled_from([bytes, bytes, *CHARSETS]))(value)
    return draw(st.sampled_from(BEGINNINGS)) + value if draw(st.booleans()) else value


def encoded(charset: str, mark: bytes = b"") -> Callable[[bytes], bytes]:
    """Text in another encoding, with or without its byte order mark."""
    return lambda value: mark + value.decode("utf-8", "replace").encode(charset)


CHARSETS = [
    *(encoded("utf-8-sig"), encoded("utf-16-be", b"\xfe\xff"), encoded("utf-16-le", b"\xff\xfe")),
    *(encoded("utf-32-be", b"\0\0\xfe\xff"), encoded("utf-32-le", b"\xff\xfe\0\0")),
    *map(encoded, ("utf-16-be", "utf-16-le", "utf-32-be", "utf-32-le")),
]
values = documents_as_written() | unparsed()
"""Strategy for record values of all kinds."""


_READING = [flag for flag in Profile.__struct_fields__ if flag.startswith("json_")]
READERS = {
    tuple(getattr(profile, flag) for flag in _READING): profile for profile in PROFILES
}.values()
"""One release for each way of reading JSON."""


# --- laws ------------------------------------------------------------------------------------


def reading(value: bytes, profile: Profile) -> bytes | str:
    """Value that a release reads, without secrets, or the error that it throws."""
    try:
        decoded = json_codec.decode(value, profile)
    except (Undecodable, StackOverflow) as error:
        return type(error).__name__
    return json_codec.encode(without_secret_names(redacted_value("", decoded)))


def without_secret_names(decoded: object) -> object:
    """Value with secrets hidden in names and texts at any depth, also in base64 and hex."""
    outermost: list[Any] = [decoded]
    waiting: list[tuple[Any, Any]] = [(outermost, 0)]
    while waiting:
        into, place = waiting.pop()
        node = into[place]
        if isinstance(node, dict):
            node = into[place] = {_hidden(name): item for name, item in node.items()}
        if isinstance(node, str):
            into[place] = _hidden(node)
        if isinstance(node, dict | list):
            places = node if isinstance(node, dict) else range(len(node))
            waiting += [(node, key) for key in places]
    return outermost[0]


def _hidden(text: str) -> str:
    return redacted_text(without_secrets(text, lambda _: HIDDEN))


@pytest.mark.slow
@settings(max_examples=FEWER_EXAMPLES)
@given(values)
def test_every_release_reads_the_same_values(
    modes: tuple[SecretPolicy, SecretPolicy], value: bytes
) -> None:
    """Each release reads the same values except for secrets; unreadable values stay unreadable."""
    for secrets in modes:
        archived = through(secrets, value)
        for profile in READERS:
            assert reading(archived, profile) == reading(value, profile)


def readings(archived: bytes) -> Iterator[str]:
    """Texts that an attacker may read in a value: without zeros, or decoded in several ways."""
    plain = SEALED.sub("", archived.replace(b"\0", b"").decode("latin-1"))
    yield plain
    yield archived.decode("cp037").replace("\0", "")
    for run in re.findall(r"[\w+/-]{8,}", plain):
        with suppress(ValueError):
            yield bytes.fromhex(run).decode("latin-1")
        for start in range(4):
            with suppress(ValueError):
                yield b64decode(run[start:] + "==").decode("latin-1")
    at = archived.find(b"\x1f\x8b")
    if at >= 0:
        with suppress(OSError, EOFError, zlib.error):
            yield gzip.decompress(archived[at:]).decode("latin-1")


def unescaped(text: str) -> Iterator[str]:
    """Yield a text, and the text after each removal of its escapes."""
    for _ in range(8):
        yield text
        text = html.unescape(unquote(text, "latin-1")).replace("\0", "")
        text = re.sub(r"\\+u([0-9A-Fa-f]{4})", lambda escape: chr(int(escape[1], 16)), text)


@settings(max_examples=FEWER_EXAMPLES)
@given(values)
@example(b'{"properties":{"note":"cGFzc3dvcmQ9aHVudGVyMg=="}}')
@example('{"token":"["😀hunter2"]}'.encode("utf-16-be"))
@example(b'\x00{"properties":{}} password=hunter2')
@example(b'\0\0\0{"properties":{}} password=hunter2')
@example(b'{\0\0\0"properties":{}} password=hunter2')
def test_no_secret_is_left(modes: tuple[SecretPolicy, SecretPolicy], value: bytes) -> None:
    """No secret is left, even encoded or in an unreadable value; a second pass changes nothing."""
    drop, encrypt = modes
    for archived in (through(drop, value), through(encrypt, value)):
        for reading in readings(archived):
            assert not any("er2" in text for text in unescaped(reading))
    assert through(drop, through(drop, value)) == through(drop, value)


@given(values)
def test_a_document_keeps_its_encoding(value: bytes) -> None:
    """Text written back in its document's encoding is read as the same text, even if cut off."""
    try:
        text = read_text(value)
    except Undecodable:  # bytes in an order that Jackson refuses
        reject()
    if text.broken and not text.units:
        reject()  # nothing was read: there is no document
    assert read_text(write_text(text, value)) == text


FRAGMENTS = st.sampled_from(
    (
        *("password=", "x.token: ", "://u:", "@h", "Bearer ", "Authorization: ", ";", " ", '"'),
        *(
            "hunter2",
            "${env:X}",
            "\\",
            *(f"-----{end} PRIVATE KEY-----" for end in ("BEGIN", "END")),
        ),
    )
)


@given(st.lists(FRAGMENTS | st.text(), max_size=12).map("".join))
@example('password=""password=')
def test_sealed_parts_of_a_text_can_be_opened(
    modes: tuple[SecretPolicy, SecretPolicy], text: str
) -> None:
    """Decryption of each sealed part (`${encrypted:…}`) restores the text.

    Redaction of the sealed text gives the same as two redactions of the original text.
    """
    sealed = json_codec.decode(through(modes[1], json_codec.encode(text)), PROFILES[-1])
    assert isinstance(sealed, str)
    opened = SEALED.sub(
        lambda sealed_part: decrypted(sealed_part[0], KEY).decode("utf-8", "surrogatepass"), sealed
    )
    assert opened == text
    assert redacted_text(sealed) == redacted_text(redacted_text(text))


# --- examples --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "archived"),
    [
        (
            b'{"properties":{"db.password":"hunter2","n":01}}',
            b'{"properties":{"db.password":"[hidden]","n":01}}',
        ),
        (
            b' {"token" :\t"hunter2", "token":"" , "\\u0061":1.50, "token":7}\n',
            b' {"token" :\t"[hidden]", "token":"" , "\\u0061":1.50, "token":"[hidden]"}\n',
        ),
        (
            b'{"token":"hunter2","d":%b}' % deep(1200),
            b'{"token":"[hidden]","d":%b}' % deep(1200),
        ),
        (
            b'{"tokens":{"a":[true,null,"${env:X}"]}}',
            b'{"tokens":{"a":["[hidden]",null,"${env:X}"]}}',
        ),
        (b'{"\xc1\xb0assword":"hunter2"}', b'{"\xc1\xb0assword":"[hidden]"}'),
        (b'{"\\u0070wd":"hunter2"}', b'{"\\u0070wd":"[hidden]"}'),
        (b'{"url":"x:\\/\\/u:hunter2@h"}', b'{"url":"x://u:[hidden]@h"}'),
        (b'{"pin.token":0123}', b'{"pin.token":01}'),
        (b'{"a":"x"} password=hunter2', b'{"a":"x"} x[hidden]'),
        (b'{"token":\'hunter2\',"a":1}', b'{"token":\'[hidden]'),
        (b'{"token":hunter2', b'{"token":x[hidden]'),
        (b'{"token":"hunter2"', b'{"token":"[hidden]"'),
        (b'{"a":"x" "b":1}', b'{"a":"x" "b":1}'),
        (b"\0\0\xff\xfep\0a\0s\0s=hunter2", b"\0\0\xff\xfe[hidden]"),
        ('{"token":"hunter2"}'.encode("utf-16-le"), '{"token":"[hidden]"}'.encode("utf-16-le")),
        (
            '{"é":[],"token":1}'.encode("utf-32-be"),
            '{"é":[],"token":"[hidden]"}'.encode("utf-32-be"),
        ),
    ],
)
def test_only_secrets_change(
    modes: tuple[SecretPolicy, SecretPolicy], value: bytes, archived: bytes
) -> None:
    """A value without a secret stays byte for byte; a value with a secret is rewritten.

    An unreadable rest of a record is replaced as a whole if it holds a secret.
    """
    assert through(modes[0], value) == archived


def test_a_changed_password_in_a_url_stays_visible(
    modes: tuple[SecretPolicy, SecretPolicy],
) -> None:
    """The archived URLs differ in the sealed password only."""
    urls = [b'{"properties":{"url":"jdbc:x://u:hunter%d@h/d"}}' % n for n in (2, 3)]
    archived, other_archived = (through(modes[1], url).decode() for url in urls)
    assert archived != other_archived
    assert (
        SEALED.sub("", archived)
        == SEALED.sub("", other_archived)
        == '{"properties":{"url":"jdbc:x://u:@h/d"}}'
    )


@pytest.mark.parametrize("key", ["c2VjcmV0", "c2VjcmV0MQ==", "c2VjcmV0MQ", "*", "A", "", None])
def test_a_session_key_stays_valid_or_invalid(
    modes: tuple[SecretPolicy, SecretPolicy], key: str | None
) -> None:
    """Valid keys stay valid, also without padding; keys that Java rejects stay invalid."""
    fields = {"key": key, "algorithm": "HmacSHA256", "creation-timestamp": 1}
    value = json_codec.encode(fields)
    for archived in (through(secrets, value, b"session-key") for secrets in modes):
        assert not key or key not in archived.decode().partition(",")[0]
        for profile in READERS:
            before = decode_config(b"session-key", value, profile)
            after = decode_config(b"session-key", archived, profile)
            assert after == before or (type(before), type(after)) == (SessionKey, SessionKey)


@pytest.mark.parametrize("value", [b'{"key":"c2Vjcm', b'{"key":c2Vjcm', b"\0\0\xff\xfec2Vjcm"])
def test_no_part_of_a_session_key_is_left(
    modes: tuple[SecretPolicy, SecretPolicy], value: bytes
) -> None:
    """A cut record, or one that is no JSON, keeps no part of the session key."""
    for secrets in modes:
        archived = through(secrets, value, b"session-key").decode("latin-1")
        assert "2Vj" not in SEALED.sub("", archived)
