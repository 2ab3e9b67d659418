"""Secrets in configs are hidden by one rule; references to secrets are shown."""

from html.entities import html5
from time import thread_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.text.escaped_text import escape_levels, has_escapes
from controlplane.core.text.redaction import (
    HIDDEN,
    LOOKED_AT,
    any_may_hold_secrets,
    is_secret,
    may_hold_secrets,
    redacted,
    redacted_refusal,
    redacted_text,
)
from tests.conftest import FEWER_EXAMPLES, sampled

PEM = "-----{0} {2}-----{{}}-----{1} {2}-----".format("BEGIN", "END", "PRIVATE KEY")

SECRET = (
    "database.password",
    "connection.PASSWORD",
    "ssl.key.password",
    "ssl.keystore.key",
    "consumer.override.sasl.jaas.config",
    "aws.secret.access.key",
    "aws_access_key_id",
    "api.key",
    "apikey",
    "azure.storage.account-key",
    "basic.auth.user.info",
    "client_secret",
    "gcs.credentials.json",
    "oauth.token",
    "private_key",
    "passphrase",
    "header.Authorization",
    "ssl.key",
    "ssl.key.pem",
    "tls_key",
    "pass",
    "db.pass",
    "userPass",
    "passwd",
    "signature",
    "X-Amz-Signature",
    "blob.sig",
    "http.cookie",
    "Set-Cookie",
)
PLAIN = (
    "name",
    "connector.class",
    "tasks.max",
    "topics",
    "key.converter",
    "primary.key.fields",
    "ssl.keystore.location",
    "connection.user",
    "transforms.mask.type",
    "ssl.key.converter",
    "bypass.cache",
    "compass",
    "signature.algorithm",
    "design",
    "cookies.enabled",
)


@pytest.mark.parametrize("key", SECRET)
def test_a_secrets_value_is_hidden(key: str) -> None:
    """A secret of any type is hidden; empty and null values are not."""
    assert redacted({key: "hunter2"}) == {key: HIDDEN}
    assert redacted({key: 42}) == {key: HIDDEN}
    assert redacted({key: ""}) == {key: ""}
    assert redacted({key: None}) == {key: None}


@pytest.mark.parametrize("key", PLAIN)
def test_other_values_are_shown(key: str) -> None:
    """Values without secrets are shown."""
    assert redacted({key: "value"}) == {key: "value"}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("${file:/etc/secrets:db}", "${file:/etc/secrets:db}"),
        ("${env:PASSWORD}", "${env:PASSWORD}"),
        ("${vault:a/b:c}${env:X}", "${vault:a/b:c}${env:X}"),
        ('user="me" password="${env:X}";', f"{HIDDEN}${{env:X}}{HIDDEN}"),
        ("a${encrypted:Zm9v}b${env:X}", f"{HIDDEN}${{env:X}}"),
        ("${no reference}", HIDDEN),
        ("$2a$10$N9qo8uLO", HIDDEN),
    ],
)
def test_references_stay_visible(value: str, shown: str) -> None:
    """`${provider:…}` names a secret and stays visible; text around it is hidden."""
    assert redacted({"sasl.jaas.config": value}) == {"sasl.jaas.config": shown}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mongodb://me:s3cret@host:27017/db", "mongodb://me:[hidden]@host:27017/db"),
        (
            "jdbc:pg://h/db?user=me&password=s3cret&x=1",
            "jdbc:pg://h/db?user=me&password=[hidden]&x=1",
        ),
        ("jdbc:x://h;password=s3cret;encrypt=true", "jdbc:x://h;password=[hidden];encrypt=true"),
        ('{"nested.password":"s3cret","rows":1}', '{"nested.password":[hidden],"rows":1}'),
        ('{\\"my.password\\":\\"s3 cret\\",\\"a\\":1}', '{\\"my.password\\":[hidden],\\"a\\":1}'),
        ("amqp://me:s3c@ret@host/x", "amqp://me:[hidden]@host/x"),
        ("amqp://me:${env:PASSWORD}@host/x", "amqp://me:${env:PASSWORD}@host/x"),
        ("amqp://me:${encrypted:Zm-v}@host/x", "amqp://me:[hidden]@host/x"),
        ("what was ${encrypted:Zm-v}", "what was [hidden]"),
        ("is ${file:/etc/passwd:root}.", "is ${file:/etc/passwd:[hidden]}[hidden]"),
        ("${DB_PASSWORD:s3cret} x", "${DB_PASSWORD:[hidden]} x"),
        ("X-Api-Key: s3cret", "X-Api-Key: [hidden]"),
        ("Accept: a/b, Authorization: Bearer s3c.r-et", "Accept: a/b, Authorization: [hidden]"),
        ("sent 'Bearer s3c.r-et=='", "sent 'Bearer [hidden]'"),
        ("Basic czNjcmV0", "Basic [hidden]"),
        ("login failed password=s3cret", "login failed password=[hidden]"),
        ("AccountName=a;AccountKey=s3cret==;x=1", "AccountName=a;AccountKey=[hidden];x=1"),
        (PEM.format("\ns3cret\n"), PEM.format("[hidden]")),
        (
            "https://h/?next=x%3Fpassword%3Ds3cret%26a",
            "https://h/?next=x%3Fpassword%3D[hidden]%26a",
        ),
        ("%2570assword%253Ds3cret", "%2570assword%253D[hidden]"),
        (
            r"{\"a\":\"{\\\"pwd\\\":\\\"s\\\\\\\"3cret\\\"}\"}",
            r"{\"a\":\"{\\\"pwd\\\":[hidden]}\"}",
        ),
        (r'{"p\u0061ssword":"s3cret"}', r'{"p\u0061ssword":[hidden]}'),
        ('{"tokens":["a",{"b":"s3]cret"}],"n":1}', '{"tokens":[hidden]'),
        ('{"tokens":["s3","cret"],"n":1}', '{"tokens":[hidden],"n":1}'),
        ("<db.password>s3cret</db.password>", "<db.password>[hidden]</db.password>"),
        ('<entry key="token">s3 cret</entry>', '<entry key="token">[hidden]</entry>'),
        ('<p name="pwd" value="s3cret"/>', '<p name="pwd" value="[hidden]"/>'),
        ("&lt;pwd&gt;s3cret&lt;/pwd&gt;", "&lt;pwd&gt;[hidden]&lt;/pwd&gt;"),
        ("a=b\ndb.password s3cret\nc=d", "a=b\ndb.password [hidden]\nc=d"),
        ("password=s3\\\n  cret\nc=d", "password=[hidden]\nc=d"),
        ("{'password': b's3 cret', 'a': 1}", "{'password': [hidden], 'a': 1}"),
        (":password => 's3 cret', :a => 1", ":password => [hidden], :a => 1"),
        ("Map(password -> s3cret, a -> 1)", "Map(password -> [hidden], a -> 1)"),
        ('{"the password": "s3 cret", "a": 1,}', '{"the password": [hidden], "a": 1,}'),
        ('{"password$":"s3 cret","a":1', '{"password$":[hidden],"a":1'),
        ('{"my \\" pwd":"s3 cret","a":1', '{"my \\" pwd":[hidden],"a":1'),
        ("Authorization: Negotiate s3cret==\na", "Authorization: [hidden]\na"),
        ("authorization=NTLM s3cret, a=1", "authorization=[hidden], a=1"),
        ("Authorization: Unknown s3cret\na: b", "Authorization: [hidden]\na: b"),
        ("Negotiate s3cretS3CRETs3cret+/== a", "Negotiate [hidden] a"),
        (
            'Authorization: Digest username="me", response="s3cret"\na: b',
            "Authorization: [hidden]\na: b",
        ),
        ("AWS4-HMAC-SHA256 Credential=s3cret, Signature=ab", "AWS4-HMAC-SHA256 [hidden]"),
        ("AWS4-HMAC-SHA256 a=s3cret", "AWS4-HMAC-SHA256 [hidden]"),
        ('[{"name": "a.pwd", "value": "s3 cret"}]', '[{"name": "a.pwd", "value": [hidden]}]'),
        ('{"value":"s3 cret","name":"pwd"}', '{"value":[hidden],"name":"pwd"}'),
        ("{name=pwd, a=1, value=s3cret}", "{name=pwd, a=1, value=[hidden]"),
        ("<name>pwd</name> <value>s3 cret</value>", "<name>pwd</name> <value>[hidden]</value>"),
        ('<p value="s3 cret" name="pwd"/>', '<p value="[hidden]" name="pwd"/>'),
        ("jdbc:pg://me:s3cr", "jdbc:pg://me:[hidden]"),
        ("of jdbc:pg://me:s3cr… (cut)", "of jdbc:pg://me:[hidden]… (cut)"),
        ("to https://me:2s3cr...", "to https://me:[hidden]..."),
        ("https://me:s3/cr#et@host", "https://me:[hidden]@host"),
        ("https://me:s3?cr@et@host", "https://me:[hidden]@host"),
        ("https://me:s3cret@host/a?b=c@d", "https://me:[hidden]@host/a?b=c@d"),
        ("http://host:8083/@scope/a?b=c@d", "http://host:8083/@scope/a?b=c@d"),
        ("jdbc:oracle:thin:scott/s3cret@//h/db", "jdbc:oracle:thin:scott/[hidden]@//h/db"),
        ('jdbc:oracle:oci:me/"s3@cret"@db', "jdbc:oracle:oci:me/[hidden]@db"),
        ("jdbc:oracle:thin:@//h:1521/db", "jdbc:oracle:thin:@//h:1521/db"),
        ("https://h/a?sv=1&sig=s3cret%3D&se=2", "https://h/a?sv=1&sig=[hidden]&se=2"),
        ("https://h/a?X-Amz-Signature=s3cret&a=b", "https://h/a?X-Amz-Signature=[hidden]&a=b"),
        ("Cookie: a=s3; b=cret\nA: b", "Cookie: [hidden]\nA: b"),
        ('{"set-cookie": "s3cret; Path=/"}', '{"set-cookie": [hidden]}'),
        ("design=new, significant: 1", "design=new, significant: 1"),
        ("http://host:8083", "http://host:8083"),
        ("no answer of http://host:8083…", "no answer of http://host:8083…"),
        ("a URL is like http://host:port", "a URL is like http://host:port"),
        ("http://[::1]:8083", "http://[::1]:8083"),
        ("failed to negotiate compatibility", "failed to negotiate compatibility"),
        ("Negotiate authenticationMechanism", "Negotiate authenticationMechanism"),
        ('{"name": "a", "value": "x", "type": 1}', '{"name": "a", "value": "x", "type": 1}'),
        ("authorization failed for the user", "authorization failed for the user"),
        ('"the token": "a", "my token", "b"', '"the token": [hidden], "my token", "b"'),
        ("password authentication failed", "password authentication failed"),
        ("10% off &c. of C:\\keys", "10% off &c. of C:\\keys"),
        ("no secret at all: a=b", "no secret at all: a=b"),
        ("http://host:8083/path?x=1", "http://host:8083/path?x=1"),
    ],
)
def test_passwords_inside_of_values_are_hidden(text: str, shown: str) -> None:
    """Passwords in URLs and assignments are hidden under any key; other text stays."""
    assert redacted_text(text) == shown
    assert redacted({"any.key": text}) == {"any.key": shown}


REFERENCES = {name[:-1]: text for name, text in html5.items() if name[-1] == ";" and text.isascii()}
"""Named references of HTML that stand for ASCII."""


def forms_of(character: str) -> list[str]:
    """Escape forms of a character that `escaped_text` decodes."""
    code = ord(character)
    forms = [f"\\u{code:04x}", f"\\uu{code:04X}", f"\\x{code:02x}"]
    forms += f"%{code:02X}", f"%2525{code:02x}"
    named = [name for name, text in REFERENCES.items() if text == character]
    for reference in (f"#{code}", f"#0000000{code}", f"#x{code:x}", f"#X0000000{code:X}", *named):
        forms += f"&{reference};", f"&amp;amp;{reference};"
    if character not in "bfnrtux":
        forms.append(f"\\{character}")
    return forms


def test_every_escape_is_noticed() -> None:
    """Each escape form that is decoded also counts as an escape."""
    for character in map(chr, range(1, 0x80)):
        for form in forms_of(character):
            assert has_escapes(form), form
            assert escape_levels(form)[0].text == character, form
    assert all(has_escapes(f"\\{letter}") for letter in "bfnrt")


EXPOSED = (
    *("password=hunter2", "https://user:hunter2@host", "<token>hunter2</token>"),
    *('{"api_key": "hunter2"}', "Bearer hunter2", "tokens=['hunter2']"),
)
"""Texts with a secret. The characters around it may be escaped."""


@given(st.sampled_from(EXPOSED), st.data())
def test_no_escape_exposes_a_secret(text: str, data: st.DataObject) -> None:
    """A secret is hidden, whichever characters around it are escaped, and in any form."""
    before, secret, after = text.partition("hunter2")

    def escaped(part: str) -> str:
        return "".join(data.draw(st.sampled_from([letter, *forms_of(letter)])) for letter in part)

    assert secret not in redacted_text(f"{escaped(before)}{secret}{escaped(after)}")


def test_nested_values_are_looked_into() -> None:
    """Secrets in nested maps, lists, and lists under a secret's name are hidden."""
    config: dict[str, Any] = {
        "a": {"password": "x", "b": [{"token": "y"}]},
        "secrets": ["u", 1],
        "credentials": {"user": "v", "others": [{"z": "w"}]},
        "headers": [{"value": "x", "name": "X-Token"}, {"name": "a", "value": "b"}],
    }
    assert redacted(config) == {
        "a": {"password": HIDDEN, "b": [{"token": HIDDEN}]},
        "secrets": [HIDDEN, HIDDEN],
        "credentials": {"user": HIDDEN, "others": [{"z": HIDDEN}]},
        "headers": [{"value": HIDDEN, "name": "X-Token"}, {"name": "a", "value": "b"}],
    }


DEPTH = 100_000
"""Depth far beyond Python's recursion limit."""


@pytest.mark.parametrize(
    ("text", "redacted_text"),
    [
        (
            "Connector config {name=a, database.password=s3cret} contains no connector type",
            "Connector config {name=a, database.password=[hidden]} contains no connector type",
        ),
        ("{db.password=s3, c}r=e t, a=b}", "{db.password=[hidden], a=b}"),
        ("{a=1, x.secret=s3 cret, c\nr, 3t}", "{a=1, x.secret=[hidden]}"),
        ("{a=1, token=${file:/x:y}, b=2}", "{a=1, token=${file:/x:y}, b=2}"),
        ("Connector a already exists", "Connector a already exists"),
        ("Unknown {password=abc def", "Unknown {password=[hidden] def"),
        ("password={s3cret}", "password=[hidden]"),
        ("password=s3{cr}et, a={b}", "password=[hidden], a={b}"),
        ('bad "token": {"b": "s3cret"}', 'bad "token": [hidden]'),
        ('password="s3{cr}et" is bad', "password=[hidden] is bad"),
        ("https://me:s3{cr}et@host", "https://me:[hidden]@host"),
    ],
)
def test_secrets_in_javas_text_of_a_config_are_hidden(text: str, redacted_text: str) -> None:
    """Secrets in Java's text of a whole config are hidden."""
    assert redacted_refusal(text) == redacted_text
    assert redacted_refusal(redacted_text) == redacted_text


def test_deep_values_are_looked_into() -> None:
    """Secrets are hidden at any depth: Connect reads values as deep as its stack."""
    deep: Any = {"password": "s3cret"}
    for _ in range(DEPTH):
        deep = [deep]
    value = redacted({"a": deep})["a"]
    for _ in range(DEPTH):
        (value,) = value
    assert value == {"password": HIDDEN}


WORDS = (
    *("a", "token", "pass", "token=", '\\"', " ", "://a:", "Basic ", "\\", "%25", "&amp;", "\0"),
    *("<token ", "<pwd>", 'name="token"', "token=[", "pwd\n", 'token={"a":', "\\u005c"),
    *("://a:b/", "jdbc:oracle:thin:a/", "Cookie: ", "sig=", "@"),
    *("name=pwd,", "value=pwd,", '"pwd x":"y",', "Digest a=b,", "<name>pwd</name>"),
)
"""Words that the test repeats until the text is long."""


SHORT, LONG = 500, 4_000
"""Characters of the two texts whose costs are compared."""

CPU_GROWTH = 24
"""Limit for the growth of CPU time from `SHORT` to `LONG`: 8 for work, times 3 for noise.

In quadratic time it would be 64.
"""


@pytest.mark.slow
@pytest.mark.parametrize("word", sampled(WORDS, *WORDS[::3]))
def test_redaction_takes_linear_time(word: str) -> None:
    """Redaction takes linear time: a value may be as long as a record."""
    short, long, value = (word * (length // len(word)) for length in (SHORT, LONG, 50_000))
    assert _cpu_s(long) < CPU_GROWTH * _cpu_s(short)
    assert redacted_text(redacted_text(value)) == redacted_text(value)
    assert redacted_refusal(f"{{password={value}}}") == "{password=[hidden]}"


def _cpu_s(text: str) -> float:
    """CPU time of this thread to redact a text in each way: the least of five measurements."""

    def measured() -> float:
        begun_s = thread_time()
        redacted_text(redacted_text(text))
        redacted_text(f"password{text}")
        redacted_refusal(f"{{password={text}}}")
        return thread_time() - begun_s

    return min(measured() for _ in range(5))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=FEWER_EXAMPLES)
@given(st.dictionaries(st.text() | st.sampled_from(SECRET), JSON, max_size=5))
def test_redaction_keeps_the_keys_and_is_stable(config: dict[str, Any]) -> None:
    """Redaction keeps all keys, and is idempotent."""
    once = redacted(config)
    assert once.keys() == config.keys()
    assert redacted(once) == once


@given(st.sampled_from(SECRET), st.text("abcdefgh", min_size=8))
def test_no_secret_is_left(key: str, secret: str) -> None:
    """A redacted config does not contain the secret."""
    assert is_secret(key)
    assert secret not in str(redacted({key: secret, "other": 1}))


def test_a_long_text_is_cut_and_hides_all_the_same() -> None:
    """A long text is cut; a secret at the cut is hidden."""
    text = "x " * (LOOKED_AT // 2 - 5) + "password=s3cret" + "y" * 1_000_000
    shown = redacted_text(text)
    assert len(shown) < LOOKED_AT + 100
    assert "s3cret"[:3] not in shown
    assert shown.endswith(" characters more)")
    text = "x " * (LOOKED_AT // 2 - 7) + "https://me:s3cret@host"
    assert redacted_text(text).endswith("https://me:[hidden]… (8 characters more)")


@pytest.mark.parametrize("name", ["pa\u017fsword", "api-\u212aEY", "PASSWD", "X-Auth-To\u212aen"])
def test_letters_that_fold_are_letters(name: str) -> None:
    """The long s and the Kelvin sign fold to letters of a secret's name."""
    assert "s3cret" not in redacted_text(f"{name}=s3cret")


_FRAGMENTS = (
    *("pass", "word", "PWD", "to", "ken", "1", "23"),
    *("%41", "%4", "&#", "://", "\n", "\0", "\\n"),
)
_texts = st.lists(st.sampled_from(_FRAGMENTS), max_size=4).map("".join)


@given(st.lists(_texts, max_size=4))
def test_a_secret_in_one_of_many_texts_is_suspected(texts: list[str]) -> None:
    """One check of all texts suspects a secret if the check of a single text does."""
    if any(map(may_hold_secrets, texts)):
        assert any_may_hold_secrets(texts)


def test_texts_without_secrets_are_not_suspected() -> None:
    """A hundred offsets of files hold no secret; neither does an empty list."""
    assert not any_may_hold_secrets([f'{{"file":"binlog.{n}","pos":{n}}}' for n in range(100)])
    assert not any_may_hold_secrets([])
