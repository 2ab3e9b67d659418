"""Secrets are replaced in place: each release reads what it read, and nothing that it did not."""

import re
from base64 import b64encode
from collections.abc import Callable

import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st

from controlplane.core import javajson
from controlplane.core.codec import decode_config
from controlplane.core.entry import Entry, batch_of
from controlplane.core.jackson_text import read_text, write_text
from controlplane.core.profiles import PROFILES, Profile
from controlplane.core.records import SessionKey
from controlplane.core.redact import redacted_text, redacted_value
from controlplane.core.state import Topics
from controlplane.core.undecodable import StackOverflow, Undecodable
from replay.capture.secrets import Secrets, decrypted, dropped, encrypted
from tests.laws.entries import deep

KEY = bytes(range(64))
SEALED = re.compile(r"\$\{encrypted:[\w-]+\}")


@pytest.fixture(scope="module")
def modes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Secrets, Secrets]:
    """Dropped, and encrypted with `KEY`."""
    path = tmp_path_factory.mktemp("keys") / "key"
    path.write_bytes(b64encode(KEY))
    return dropped(Topics()), encrypted(Topics(), path)


def through(secrets: Secrets, value: bytes, key: bytes = b"connector-a") -> bytes:
    """The value that is archived."""
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
]
SECRETS = [
    b'"db.password"',
    b'"p\\u0061ssword"',
    b'"token"',
    b'"pa\xc5\xbfsword"',
    b'"token' + HALF + b'"',
]
PLAIN = [b'"n"', b'"url"', b'"\\ud800"', b'"' + HALF + b'"', b'""']
OTHERS = [
    b"null",
    b"true",
    b'"v"',
    b'"' + HALF + b'"',
    b'"\xff"',
    *map(deep, (3, 1200, 2100, 5000)),
]
JUNK = [b"?", b"'", b",", b":", b"]", b"}", b'"', b"{", b'"open', b"\\", b"x", b"\xff", b"\0"]
ENDS = [b"", b"", b"\n", b" trailing", b" password=hunter2", b',"db.password":"hunter2"', b"\xff"]

Tokens = list[bytes]


def one_of(tokens: list[bytes]) -> st.SearchStrategy[Tokens]:
    """One of them, as a document of one token."""
    return st.sampled_from(tokens).map(lambda token: [token])


def nested(inner: st.SearchStrategy[Tokens], names: list[bytes]) -> st.SearchStrategy[Tokens]:
    """Lists and maps of values."""
    members = st.lists(st.tuples(st.sampled_from(names), inner), max_size=4)
    return st.lists(inner, max_size=3).map(_list) | members.map(_map)


def _list(items: list[Tokens]) -> Tokens:
    return [b"[", *_separated(items), b"]"]


def _map(members: list[tuple[bytes, Tokens]]) -> Tokens:
    return [b"{", *_separated([[name, b":", *value] for name, value in members]), b"}"]


def _separated(items: list[Tokens]) -> Tokens:
    return [token for item in items for token in (b",", *item)][1:]


secret_values = st.recursive(
    one_of(STRINGS + NUMBERS + OTHERS), lambda inner: nested(inner, PLAIN), max_leaves=4
)
plain_values = one_of(NUMBERS + OTHERS + TEXTS)
members = st.tuples(st.sampled_from(SECRETS), secret_values) | st.tuples(
    st.sampled_from(PLAIN), plain_values
)
maps = st.lists(members, max_size=6).map(_map)
documents = maps.map(lambda inner: _map([(b'"properties"', inner)])) | maps | plain_values

MARKS = {"utf-16-be": b"\xfe\xff", "utf-16-le": b"\xff\xfe", "utf-32-le": b"\xff\xfe\0\0"}


@st.composite
def values(draw: st.DrawFn) -> bytes:
    """What may lie in a record: JSON that all, some or no releases read, in any encoding."""
    tokens = draw(documents)
    if draw(st.integers(0, 2)) == 0:
        tokens.insert(draw(st.integers(0, len(tokens))), draw(st.sampled_from(JUNK)))
    space = draw(st.sampled_from([b"", b" ", b"\r\n\t"]))
    value = space.join(tokens) + draw(st.sampled_from(ENDS))
    if draw(st.integers(0, 4)) == 0:
        value = value[: draw(st.integers(0, len(value)))]
    return draw(st.sampled_from([bytes, encoded("utf-8-sig"), *map(encoded, MARKS)]))(value)


def encoded(charset: str) -> Callable[[bytes], bytes]:
    """The same text in another encoding, with its mark."""
    mark = MARKS.get(charset, b"")
    return lambda value: mark + value.decode("utf-8", "replace").encode(charset)


_READING = [flag for flag in Profile.__struct_fields__ if flag.startswith("json_")]
READERS = {tuple(getattr(one, flag) for flag in _READING): one for one in PROFILES}.values()
"""One of the releases that read JSON alike."""


# --- laws ------------------------------------------------------------------------------------


def reading(value: bytes, profile: Profile) -> bytes | str:
    """What a release reads, as it is without secrets; or what it throws."""
    try:
        decoded = javajson.decode(value, profile)
    except (Undecodable, StackOverflow) as error:
        return type(error).__name__
    return javajson.encode(redacted_value("", decoded))


@given(values())
def test_every_release_reads_what_it_read(modes: tuple[Secrets, Secrets], value: bytes) -> None:
    """But for the secrets; and what it could not read it cannot read now."""
    for secrets in modes:
        archived = through(secrets, value)
        for profile in READERS:
            assert reading(archived, profile) == reading(value, profile)


@given(values())
def test_no_secret_is_left(modes: tuple[Secrets, Secrets], value: bytes) -> None:
    """Not even where it can be read by nobody, and nothing is hidden twice."""
    drop, encrypt = modes
    for archived in (through(drop, value), through(encrypt, value)):
        text = archived.replace(b"\0", b"").decode("latin-1")
        assert "er2" not in SEALED.sub("", text)
    assert through(drop, through(drop, value)) == through(drop, value)


@given(values())
def test_a_document_is_written_as_it_is_read(value: bytes) -> None:
    """In its own encoding, cut off or not."""
    try:
        text = read_text(value)
    except Undecodable:  # bytes in an order that Jackson refuses
        reject()
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
def test_what_is_sealed_in_a_text_can_be_opened(modes: tuple[Secrets, Secrets], text: str) -> None:
    """Part by part, the rest being what it was; people are shown what they are of a hidden text."""
    sealed = javajson.decode(through(modes[1], javajson.encode(text)), PROFILES[-1])
    assert isinstance(sealed, str)
    opened = SEALED.sub(lambda one: decrypted(one[0], KEY).decode("utf-8", "surrogatepass"), sealed)
    assert opened == text
    assert redacted_text(sealed) == redacted_text(redacted_text(text))


# --- what it looks like ----------------------------------------------------------------------


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
def test_only_secrets_change(modes: tuple[Secrets, Secrets], value: bytes, archived: bytes) -> None:
    """Byte for byte."""
    assert through(modes[0], value) == archived


def test_a_password_in_a_url_is_seen_to_change(modes: tuple[Secrets, Secrets]) -> None:
    """As the rest of the URL is."""
    urls = [b'{"properties":{"url":"jdbc:x://u:hunter%d@h/d"}}' % n for n in (2, 3)]
    one, other = (through(modes[1], url).decode() for url in urls)
    assert one != other
    assert (
        SEALED.sub("", one) == SEALED.sub("", other) == '{"properties":{"url":"jdbc:x://u:@h/d"}}'
    )


@pytest.mark.parametrize("key", ["c2VjcmV0", "c2VjcmV0MQ==", "c2VjcmV0MQ", "*", "A", "", None])
def test_a_session_key_stays_one_or_none(modes: tuple[Secrets, Secrets], key: str | None) -> None:
    """Java needs no padding; what is no base64 is refused before and after."""
    fields = {"key": key, "algorithm": "HmacSHA256", "creation-timestamp": 1}
    value = javajson.encode(fields)
    for archived in (through(secrets, value, b"session-key") for secrets in modes):
        assert not key or key not in archived.decode().partition(",")[0]
        for profile in READERS:
            before = decode_config(b"session-key", value, profile)
            after = decode_config(b"session-key", archived, profile)
            assert after == before or (type(before), type(after)) == (SessionKey, SessionKey)


@pytest.mark.parametrize("value", [b'{"key":"c2Vjcm', b'{"key":c2Vjcm', b"\0\0\xff\xfec2Vjcm"])
def test_no_part_of_a_session_key_is_left(modes: tuple[Secrets, Secrets], value: bytes) -> None:
    """Where the record is cut off, or no JSON."""
    for secrets in modes:
        archived = through(secrets, value, b"session-key").decode("latin-1")
        assert "2Vj" not in SEALED.sub("", archived)
