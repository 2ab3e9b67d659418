"""Tables of settings, compared with Kafka's keys, defaults and parsers."""

import subprocess
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controlplane.settings import Configuration, SourcedValue, ValueSource, WorkerSettings
from controlplane.settings.access import AccessSettings
from controlplane.settings.configuration import EffectiveValue, keys
from controlplane.settings.errors import SettingsError
from controlplane.settings.known_settings import UNUSED, unused
from controlplane.settings.listeners import ResponseHeaderSettings
from controlplane.settings.security import Secret
from controlplane.terminal.worker_options import tables
from tests.conftest import sampled
from tests.jars import SHORT_LIVED, java
from tests.oracle.kafka import release_path

NEWEST = "4.3.0"
RELEASES = ("2.8.2", "3.9.1", NEWEST)
"""Releases: the last one with `rest.port`, the last 3.x, the newest."""

SETTINGS = (WorkerSettings, AccessSettings, ResponseHeaderSettings)

TEXTS = [
    *("", " ", "true", "TRUE", " false ", "1", "0", "-1", "+7", "007", "5.0", "0x10", "1_000"),
    *("2147483647", "2147483648", "99999999999999999999", "x", "enabled", "Disabled", "sasl_ssl"),
    *("a,b", " a , b ", "a,,b", "ü"),
]
"""Valid and invalid values that people write."""

JUDGE = r"""
    import java.lang.reflect.*; import java.nio.charset.StandardCharsets; import java.util.*;
    import org.apache.kafka.common.config.*;
    public class Judge {
        static final Class<?> WORKER;
        static {
            try {
                WORKER = Class.forName(
                    "org.apache.kafka.connect.runtime.distributed.DistributedConfig");
            } catch (ClassNotFoundException error) { throw new RuntimeException(error); }
        }
        public static void main(String[] texts) throws Exception {
            for (var key : definition().configKeys().values()) {
                var told = new ArrayList<String>();
                told.add(key.name);
                told.add(key.hasDefault() ? text(key.defaultValue) : null);
                for (var line : texts) told.add(parsed(key, unhex(line)));
                System.out.println(String.join("\t", told.stream().map(Judge::hex).toList()));
            }
            for (var field : TopicConfig.class.getFields())
                if (field.getName().endsWith("_CONFIG"))
                    System.out.println(hex("topic " + field.get(null)));
        }
        static ConfigDef definition() throws Exception {
            for (var method : WORKER.getDeclaredMethods()) {
                if (method.getReturnType() != ConfigDef.class) continue;
                method.setAccessible(true);
                var needed = method.getParameterTypes();
                if (needed.length == 0) return (ConfigDef) method.invoke(null);
                return (ConfigDef) method.invoke(null, needed[0].getField("SYSTEM").get(null));
            }
            var field = WORKER.getDeclaredField("CONFIG");
            field.setAccessible(true);
            return (ConfigDef) field.get(null);
        }
        static String parsed(ConfigDef.ConfigKey key, String text) {
            try {
                var value = ConfigDef.parseType(key.name, text, key.type);
                if (key.validator != null) key.validator.ensureValid(key.name, value);
                return text(value);
            } catch (ConfigException refused) { return null; }
        }
        static String text(Object value) {
            if (value instanceof org.apache.kafka.common.config.types.Password secret)
                return secret.value();
            if (value instanceof Class<?> named) return named.getName();
            if (value instanceof List<?> list && list.isEmpty()) return "null";
            return value instanceof List<?> list ? String.join("|", list.toArray(String[]::new))
                : String.valueOf(value);
        }
        static String hex(String text) {
            return text == null ? "-"
                : "'" + HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
        }
        static String unhex(String text) {
            return new String(HexFormat.of().parseHex(text), StandardCharsets.UTF_8);
        }
    }
"""


class KafkaKey(msgspec.Struct, frozen=True):
    """Key of Kafka: its default, and the parsed value of each text; None: no value."""

    default: str | None
    parsed: dict[str, str | None]


class Kafkas(msgspec.Struct, frozen=True):
    """Settings of a release of Kafka."""

    keys: dict[str, KafkaKey]
    of_topics: set[str]


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Source file of the Java program that calls Kafka's parsers."""
    source = tmp_path_factory.mktemp("judge") / "Judge.java"
    source.write_text(textwrap.dedent(JUDGE), encoding="ascii")
    return source


@cache
def kafkas_readings(judge: Path, release: str) -> Kafkas:
    """Keys of a release, and its parsed values of the texts."""
    path = release_path(release)
    texts = [text.encode().hex() for text in TEXTS]
    command = [str(java()), *SHORT_LIVED, "-cp", path, str(judge), *texts]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [[_unhex(part) for part in line.split("\t")] for line in said.splitlines()]
    keys = {
        name: KafkaKey(default, dict(zip(TEXTS, parsed, strict=True)))
        for name, default, *parsed in (row for row in rows if len(row) > 1)
        if name
    }
    return Kafkas(keys, {row[0][6:] for row in rows if len(row) == 1 and row[0]})


def _unhex(text: str) -> str | None:
    return None if text == "-" else bytes.fromhex(text[1:]).decode()


def ours() -> dict[str, EffectiveValue]:
    """Every setting of a worker without configuration."""
    return {
        setting.key: setting for table in SETTINGS for setting in Configuration().effective(table)
    }


@pytest.mark.java
@pytest.mark.parametrize("release", sampled(RELEASES, RELEASES[0], NEWEST))
def test_every_key_of_kafka_is_known(judge: Path, release: str) -> None:
    """Each key is used or listed as unused, so a worker's file causes no warnings."""
    kafkas = kafkas_readings(judge, release)
    known_keys = {*ours(), *(key for key in kafkas.keys if unused(key))}
    assert kafkas.keys.keys() - known_keys == set()
    assert len(kafkas.keys) > 90
    stores = [f"{store}.storage." for store in ("config", "offset", "status", "command")]
    assert [key for key in kafkas.of_topics for store in stores if not unused(store + key)] == []
    assert "min.insync.replicas" in kafkas.of_topics


def test_no_key_is_both_used_and_unused() -> None:
    """The tables do not contradict each other, and no two tables share a key."""
    counting = [key for table in tables().items() for key in keys(*table)]
    assert len(counting) == len({*counting})
    assert not UNUSED.keys() & {*counting}


OTHER_DEFAULTS = {
    "group.id",  # ours is that of Kafka's sample file
    "config.storage.topic",
    "offset.storage.topic",
    "status.storage.topic",
    "listeners",  # ours is this machine only
    "connector.client.config.override.policy",  # ours is not set: the release decides
}
"""Keys whose default differs from Kafka's; the table gives the reasons."""


@pytest.mark.java
def test_defaults_are_kafkas(judge: Path) -> None:
    """Our defaults are those of the newest release, unless the table gives a reason."""
    kafkas = kafkas_readings(judge, NEWEST).keys
    differing = {
        key
        for key, setting in ours().items()
        if key in kafkas and _kafkas_text(setting.value) != (kafkas[key].default or "null").lower()
    }
    assert differing == OTHER_DEFAULTS


def _kafkas_text(value: Any) -> str:
    return "null" if value in (None, (), "") else str(value).lower()


ELSEWISE = {
    "": "we take it as no value, or refuse it (next test)",
    " ": "we take it as no value, or refuse it",
    "-1": "we refuse a time below 0",
    "a,,b": "an empty part of a list is refused by 4.x only (KIP-1161)",
}
"""Texts that Kafka parses otherwise for some key."""

CONVERTERS = {f"{part}.converter" for part in ("key", "value", "header")}
AS_WRITTEN = {"bootstrap.servers", "response.http.headers.config", *CONVERTERS}
"""Settings whose text their users parse later."""


@pytest.mark.java
def test_texts_are_parsed_as_by_kafka(judge: Path) -> None:
    """For each key and text, both refuse it or both parse the same value."""
    kafkas = kafkas_readings(judge, NEWEST).keys
    differing = [
        (key, text, mine, theirs)
        for table in SETTINGS
        for key in (setting.key for setting in Configuration().effective(table))
        if key in kafkas and key not in AS_WRITTEN
        for text in TEXTS
        if text not in ELSEWISE
        if (mine := _meant(table, key, text)) != (theirs := _lower(kafkas[key].parsed[text]))
    ]
    assert differing == []


def _meant(table: type[msgspec.Struct], key: str, text: str) -> str | None:
    """Our parsed value of a text, in Kafka's notation."""
    configured = Configuration({key: SourcedValue(text, ValueSource("flag"))})
    try:
        (value,) = (setting.value for setting in configured.effective(table) if setting.key == key)
    except SettingsError:
        return None
    if isinstance(value, Secret):
        return _lower(value.reveal())
    return _lower("|".join(value) if isinstance(value, tuple) else str(value))


def _lower(text: str | None) -> str | None:
    """Choice in lower case: Kafka keeps its spelling, we use the listed name."""
    return None if text is None else text.lower()


WOULD_NOT_START = {
    *("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic"),
}
"""Settings whose empty value only `ConfigDef` accepts: brokers refuse an empty name."""

LISTS_OF_4 = {"admin.listeners", "config.providers", "plugin.path"}
"""Lists that may be empty up to 3.9 and here; 4.x refuses that (KIP-1161)."""


@pytest.mark.java
def test_empty_values_that_kafka_refuses_are_refused(judge: Path) -> None:
    """An empty value is refused for numbers, choices, classes and required names."""
    kafkas = kafkas_readings(judge, NEWEST).keys
    theirs = {key for key in ours() if key in kafkas and kafkas[key].parsed[""] is None}
    mine = {
        key
        for table in SETTINGS
        for key in keys(table)
        if key in kafkas and _meant(table, key, "") is None
    }
    assert mine - WOULD_NOT_START == theirs - LISTS_OF_4
    assert mine >= WOULD_NOT_START | {"bootstrap.servers", "key.converter", "security.protocol"}
