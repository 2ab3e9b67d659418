"""The format of worker configurations is that of `java.util.Properties`, to the character."""

import random
import subprocess
import textwrap
from pathlib import Path

import pytest

from controlplane.settings.errors import SettingsError
from controlplane.settings.properties import properties_in, read_properties
from tests.jars import SHORT_LIVED, java

FORMAT = [
    ("", {}),
    ("key=value", {"key": "value"}),
    ("key:value\nother value", {"key": "value", "other": "value"}),
    ("  key \t = \f value  ", {"key": "value  "}),
    ("key", {"key": ""}),
    ("=value", {"": "value"}),
    ("a=1\na=2", {"a": "2"}),
    ("# no\n ! nor this\n\n \nkey=#value!", {"key": "#value!"}),
    ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
    ("list=one,\\\n     two", {"list": "one,two"}),
    ("path=C:\\\\dir\\\\\nnext=1", {"path": "C:\\dir\\", "next": "1"}),
    ("a=1\\\n# no comment here", {"a": "1# no comment here"}),
    ("a\\ b\\=c\\:d=e\\=f", {"a b=c:d": "e=f"}),
    ("key=\\t\\n\\r\\f\\q\\u00e9\\uD83D\\ude00", {"key": "\t\n\r\fq\u00e9\U0001f600"}),
    ("key=\\uD83D", {"key": "\ufffd"}),
    ("key=value\\", {"key": "value"}),
    ("key==value", {"key": "=value"}),
    ("key = = value", {"key": "= value"}),
]
"""Texts, and their properties according to `java.util.Properties`."""


def parse_properties(text: str) -> dict[str, str]:
    """Values by key as in Java's class: the last value of a key wins."""
    return {prop.key: prop.value for prop in properties_in(text)}


@pytest.mark.parametrize(("text", "properties"), FORMAT)
def test_the_format_is_javas(text: str, properties: dict[str, str]) -> None:
    """Separators, comments, continued lines and escapes work as in Java."""
    assert parse_properties(text) == properties


def test_a_byte_order_mark_is_no_part_of_a_key(tmp_path: Path) -> None:
    """The mark that editors on Windows write is dropped, unlike in Java; a second mark stays."""
    path = tmp_path / "worker.properties"
    path.write_bytes("group.id=g\n".encode("utf-8-sig"))
    assert [each.key for each in read_properties(path)] == ["group.id"]
    assert parse_properties("\ufeffname=a") == {"name": "a"}
    assert parse_properties("\ufeff# comment\nname=a") == {"name": "a"}
    assert parse_properties("a=1\n\ufeffname=a") == {"a": "1", "\ufeffname": "a"}


def test_a_long_run_of_backslashes_is_read_in_linear_time() -> None:
    """Backslashes inside a line take linear time: quadratic time would be many minutes."""
    assert parse_properties("key=" + "\\" * 1_000_000 + "x") == {"key": "\\" * 500_000 + "x"}


def test_a_broken_escape_is_refused() -> None:
    r"""A `\u` without digits is an error at the first line of the property."""
    with pytest.raises(SettingsError, match="line 2:"):
        parse_properties("a=1\nb=\\\n\\u12\nc=3")


def test_a_property_has_its_first_line() -> None:
    """A property has the line on which it begins."""
    properties = properties_in("# no\n\na=1\nb=2,\\\n  3\nc=4")
    assert [(entry.line, entry.key) for entry in properties] == [(3, "a"), (4, "b"), (6, "c")]


PIECES = [*"\\\\\\=:# !ab \t\f\n\r\u00e9\0", "\\u0041", "\\ud83d\\ude00", "\\u00", "key=value\n"]

JUDGE = """
    import java.io.*; import java.util.*; import java.nio.charset.StandardCharsets;
    public class Judge {
        public static void main(String[] arguments) throws Exception {
            var hex = HexFormat.of();
            var lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line; (line = lines.readLine()) != null; ) {
                var found = new Properties();
                try {
                    found.load(new ByteArrayInputStream(hex.parseHex(line)));
                } catch (IllegalArgumentException refused) {
                    System.out.println("refused");
                    continue;
                }
                var told = new StringJoiner(" ");
                for (var name : new TreeSet<>(found.stringPropertyNames()))
                    for (var text : List.of(name, found.getProperty(name)))
                        told.add("'" + hex.formatHex(text.getBytes(StandardCharsets.UTF_16BE)));
                System.out.println(told);
            }
        }
    }
"""
TEXTS = 5_000

CONTINUED = ("\\\n", "\\\r", "\\\r\n")
"""Endings of a text after which Java reads one more property, without name and value. We do not."""


def _ours(text: str) -> str:
    try:
        properties = parse_properties(text)
    except SettingsError:
        return "refused"
    parts = [part for name in sorted(properties, key=_utf16) for part in (name, properties[name])]
    return " ".join("'" + _utf16(part).hex() for part in parts)


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be")


@pytest.mark.java
def test_random_texts_are_read_as_by_java(tmp_path: Path) -> None:
    """Random texts of the format's special characters give the properties of Java's class."""
    source = tmp_path / "Judge.java"
    source.write_text(textwrap.dedent(JUDGE), encoding="ascii")
    chance = random.Random(1)
    texts = ["".join(chance.choices(PIECES, k=chance.randrange(25))) for _ in range(TEXTS)]
    encoded = "\n".join(text.encode("iso-8859-1").hex() for text in texts)
    judged = subprocess.run(
        [str(java()), *SHORT_LIVED, str(source)],
        input=encoded,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    different = [
        (text, ours, judgement)
        for text, judgement in zip(texts, judged, strict=True)
        if (ours := _ours(text)) != judgement and not text.endswith(CONTINUED)
    ]
    assert different == []
    assert judged.count("refused") < TEXTS / 2
