"""Secrets in captured records are dropped or encrypted; the rest of a record stays."""

import re
from base64 import b64decode, b64encode
from pathlib import Path
from time import process_time

import msgspec
import pytest
from cryptography.exceptions import InvalidTag
from hypothesis import example, given

from controlplane.core.entry import Entry, batch_of
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.core.text.redaction import may_hold_secrets
from controlplane.core.views.diff import diff
from replay.capture.secrets import (
    SecretPolicy,
    decrypted,
    dropped_secrets,
    encrypted_secrets,
    kept_secrets,
    read_key,
)
from replay.errors import NotCapturable
from tests.laws.entries import logs
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import archived, capture, cluster_in, log_of, replayed, served

KEY = bytes(range(64))
KIP = [Profile.of("kip")]


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """Key file as openssl writes it."""
    path = tmp_path / "key"
    path.write_bytes(b64encode(KEY) + b"\n")
    return path


def config(value: bytes, key: bytes = b"connector-a", offset: int = 0) -> Entry:
    """Record of the config topic."""
    return Entry("connect-configs", 0, offset, 1_000, key, value)


def through(secrets: SecretPolicy, entry: Entry) -> bytes:
    """Archived value of an entry."""
    (value,) = secrets.without(batch_of([entry])).values
    assert value is not None
    return value


PASSWORD = b'{"properties":{"name":"a","db.password":"p\\u00e4ss","n":1.50}}'


def test_a_secret_is_dropped_and_the_rest_stays() -> None:
    """The name of the secret setting stays, and so does every other value."""
    assert through(dropped_secrets(Topics()), config(PASSWORD)) == (
        b'{"properties":{"name":"a","db.password":"[hidden]","n":1.50}}'
    )


def test_a_secret_is_encrypted_and_the_key_opens_it(key_file: Path) -> None:
    """Only the key decrypts a secret. Equal secrets have equal ciphertexts."""
    secrets = encrypted_secrets(Topics(), key_file)
    value = through(secrets, config(PASSWORD))
    assert value == through(encrypted_secrets(Topics(), key_file), config(PASSWORD))
    sealed = value.decode().split('"db.password":"')[1].split('"')[0]
    assert decrypted(sealed, read_key(key_file)) == "päss".encode()
    with pytest.raises(InvalidTag):
        decrypted(sealed, bytes(64))
    assert b"ss" not in value.replace(b"db.password", b"").replace(sealed.encode(), b"")


def test_the_key_of_workers_is_a_secret_and_stays_base64(key_file: Path) -> None:
    """The replacement of a session key is base64, too, so workers can still read the record."""
    record = b'{"key":"c2VjcmV0","algorithm":"HmacSHA256","creation-timestamp":1}'
    for secrets in (dropped_secrets(Topics()), encrypted_secrets(Topics(), key_file)):
        value = through(secrets, config(record, b"session-key"))
        assert b"c2VjcmV0" not in value
        log = log_of([config(value, b"session-key")])
        (state,) = served(log, None, KIP)
        assert state.config.session_key is not None
        assert not state.unreadable


@pytest.mark.parametrize(
    "value",
    [
        b'{"properties":{"url":"jdbc://u:hunter2@h/db"}}',
        b'{"properties":{"sasl.jaas.config":"x password=\\"hunter2\\";"}}',
        b'{"properties":{"a":{"token":["hunter2"]}}}',
        b'{"properties":{"password":"hunter2"',  # no JSON at all
        b'{"state":"FAILED","trace":"password=hunter2 refused","worker_id":"w","generation":1}',
    ],
)
def test_secrets_are_found_wherever_they_are(value: bytes, key_file: Path) -> None:
    """Secrets are found in a URL, in a text, deep down, and in unreadable values."""
    for secrets in (dropped_secrets(Topics()), encrypted_secrets(Topics(), key_file)):
        assert b"hunter2" not in through(secrets, config(value))


@pytest.mark.parametrize(
    "text", [b"checkers", b"no JSON, and long words: sovereignty, independent", b"+checker"]
)
def test_long_words_stay(text: bytes) -> None:
    """A word that is valid base64 stays, unless it decodes to a secret."""
    assert through(dropped_secrets(Topics()), config(text)) == text


@pytest.mark.parametrize(
    "value",
    [
        b'{"properties":{"note":"cGFzc3dvcmQ9aHVudGVyMg=="}}',
        b'{"properties":{"note":"see data:text/plain,cGFzc3dvcmQ9aHVudGVyMg"}}',
        b'{"properties":{"note":"70617373776F72643D68756E74657232"}}',
        b'{"properties":{"{\\"cGFzc3dvcmQ9aHVudGVyMg==\\"}":"x"}}',
        b'{"properties":{"note":"cGFzc3dv\\ncmQ9aHVudGVyMg=="}}',
    ],
)
def test_base64_and_hex_disguise_no_secret_in_json(value: bytes, key_file: Path) -> None:
    """Base64 or hex text with a secret is replaced in JSON; a second pass changes nothing."""
    assert b"[hidden]" in through(dropped_secrets(Topics()), config(value))
    for secrets in (dropped_secrets(Topics()), encrypted_secrets(Topics(), key_file)):
        archived = through(secrets, config(value))
        assert b"cGFzc3dv" not in archived
        assert b"70617373" not in archived
        assert through(secrets, config(archived)) == archived


@pytest.mark.parametrize("space", ["\u00a0", "\u3000", "\f", "\v", "\x1c", "\x85", "\u2028"])
@pytest.mark.parametrize("break_before", [True, False])
def test_other_white_space_between_words_stays(space: str, *, break_before: bool) -> None:
    """Words on two lines stay, also with white space that base64 does not have between them."""
    between = f"\n{space}" if break_before else f"{space}\n"
    value = msgspec.json.encode({"properties": {"doc": f"SQLException{between}Serveur"}})
    assert through(dropped_secrets(Topics()), config(value)) == value


@pytest.mark.parametrize("middle", [b"\n", b" \n", b"\n\t"])
def test_many_line_breaks_after_a_word_take_no_time(middle: bytes) -> None:
    """A search of 100,000 line breaks takes well below a second; backtracking takes minutes."""
    text = b"Template" + middle * 100_000 + b"."
    begun = process_time()
    assert through(dropped_secrets(Topics()), config(text)) == text
    assert process_time() - begun < 10


@pytest.mark.parametrize(
    "text", [b"a monkey on a keyboard", b"\x89PNG\r\n\x1a\n pass", bytes(range(48))]
)
def test_harmless_base64_stays(text: bytes, key_file: Path) -> None:
    """Base64 of a text with a word like `key` stays, if no value follows the word."""
    value = (
        b'{"properties":{"icon":"' + b64encode(text) + b'","class":"io.example.KeyValueSource"}}'
    )
    for secrets in (dropped_secrets(Topics()), encrypted_secrets(Topics(), key_file)):
        assert through(secrets, config(value)) == value


def test_a_planned_record_stays_base64(key_file: Path) -> None:
    """A planned record in the command topic stays base64; the secret in it is hidden."""
    draft = b'{"plan":[{"key":"YQ==","value":"' + b64encode(PASSWORD) + b'"}]}'
    for secrets in (dropped_secrets(Topics()), encrypted_secrets(Topics(), key_file)):
        entry = Entry("connect-commands", 0, 0, 1, b"c", draft)
        archived = msgspec.json.decode(through(secrets, entry))
        planned = msgspec.json.decode(b64decode(archived["plan"][0]["value"], validate=True))
        assert planned["properties"]["name"] == "a"
        assert planned["properties"]["db.password"].startswith(("[hidden]", "${encrypted:"))


@given(logs())
@example([config(b"+AAAAAAA")])
@example([config(b"AAAAAAAA")])
def test_harmless_values_stay_byte_for_byte(log: list[Entry]) -> None:
    """Values without secrets stay byte for byte; archived values are not changed again."""
    for entry in log:
        assert kept_secrets(Topics()).without(batch_of([entry])).values == [entry.value]
        once = dropped_secrets(Topics()).without(batch_of([entry]))
        twice = dropped_secrets(Topics()).without(once)
        assert once.values == twice.values
        if (entry.key is None or b"session-key" not in entry.key) and legible(entry.value):
            assert once.values == [entry.value]


ENCODED = re.compile(r"[A-Za-z0-9+/_-]{8}")
"""Eight characters of base64 or hex, the least that may encode a secret."""


def legible(value: bytes | None) -> bool:
    """True for printable JSON, and for other printable text in which no secret is possible.

    The JSON of random logs has no secrets.
    """
    try:
        text = (value or b"").decode()
    except UnicodeDecodeError:
        return False
    printable = all(char.isprintable() or char in "\n\r\t" for char in text)
    return printable and (_is_json(text) or not (may_hold_secrets(text) or ENCODED.search(text)))


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


SECRET_HEADERS = (
    ("db.password", b"hunter2"),
    ("config", b'{"db.password":"hunter2"}'),
    ("url", b"jdbc:x://u:hunter2@h/d"),
    ("packed", b"\x1f\x8bhunter2"),
)
PLAIN_HEADERS = (
    ("controlplane-principal", b"monkey@key.example"),
    ("controlplane-command-id", b"17"),
    ("name", None),
    ("empty", b""),
)


@pytest.mark.parametrize("topic", ["connect-configs", "connect-offsets", "connect-status", "own"])
def test_no_secret_is_left_in_a_header(topic: str, key_file: Path) -> None:
    """Secrets in headers are hidden; user and command id stay."""
    entry = Entry(topic, 0, 0, 1, b"k", b"{}", (*SECRET_HEADERS, *PLAIN_HEADERS))
    for secrets in (dropped_secrets(Topics()), encrypted_secrets(Topics(), key_file)):
        batch = secrets.without(batch_of([entry]))
        headers = batch.headers[0]
        assert headers[len(SECRET_HEADERS) :] == PLAIN_HEADERS
        assert "hunter2" not in str(headers)
        assert [name for name, _ in headers[:4]] == [name for name, _ in SECRET_HEADERS]
        assert batch.values == [b"{}"]


def test_archive_and_service_differ_in_secrets_alone(tmp_path: Path) -> None:
    """Archive and service differ in secrets alone; a second capture adds no record."""
    entries = recorded_entries("life-3.9")
    secret = config(PASSWORD, b"connector-secretive", entries[-1].offset + 1_000)
    log = log_of([*entries, secret])
    secrets = dropped_secrets(Topics())
    assert capture(tmp_path, log, secrets=secrets).added == len(entries) + 1
    assert capture(tmp_path, log, secrets=secrets, goes_on=False).added == 0
    (state,), (expected,) = replayed(cluster_in(tmp_path), None, KIP), served(log, None, KIP)
    changes = [(change.connector, change.item) for change in diff(state, expected)]
    assert changes == [("secretive", "db.password")]
    values = [entry.value for entry in archived(cluster_in(tmp_path))]
    assert [value for value in values if value and b"db.password" in value] == [
        b'{"properties":{"name":"a","db.password":"[hidden]","n":1.50}}'
    ]


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"\xff", "holds no key"), (b64encode(bytes(20)), "a key of 20 bytes")],
)
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    """The error says how to make a key."""
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(NotCapturable, match=f"{why}.*openssl rand"):
        read_key(path)
