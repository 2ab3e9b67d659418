"""Hadoop's settings of object stores (`fs.s3a.…`), translated to Arrow's options.

Arrow reads the archive in every engine, so Hadoop's jars are not needed for it. Spark users have
these settings in Hadoop's words: in core-site.xml or as `--conf`. A setting that decides which
bytes are read, or how they are stored, is honoured or refused. Settings that tune Hadoop's own
client are ignored.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit
from xml.etree import ElementInclude
from xml.etree import ElementTree as ET

import msgspec

from replay.errors import BadStoreSetting

OF_SPARK = "spark.hadoop."
"""Prefix of Hadoop's settings in a Spark configuration."""

S3A = "fs.s3a."

_BUCKET = "bucket."
"""Prefix of per-bucket settings: `fs.s3a.bucket.B.endpoint` is `fs.s3a.endpoint` of bucket B."""

_NAMES = {
    "access.key": "access_key",
    "secret.key": "secret_key",
    "session.token": "session_token",
    "endpoint.region": "region",
}
"""Arrow's names of settings whose values are passed on unchanged."""

_TRANSLATED = (
    "endpoint",
    "connection.ssl.enabled",
    "path.style.access",
    "aws.credentials.provider",
)
"""Settings that Arrow has in another form: functions below translate them."""

_CENTRAL = "s3.amazonaws.com"
"""AWS's central endpoint, valid for every region."""

_TUNING = re.compile(
    "impl|attempts|audit|block|buffer|change|committer|connection|directory|downgrade|etag|executor"
    "|experimental|fast|input|list|max|multiobjectdelete|multipart|paging|performance|prefetch"
    "|readahead|retry|select|socket|ssl|threads|user|vectored"
)
"""Prefixes of settings that tune Hadoop's own client and do not affect the data."""

_ANONYMOUS = "AnonymousAWSCredentialsProvider"
_PROVIDERS = {
    "SimpleAWSCredentialsProvider",
    "TemporaryAWSCredentialsProvider",
    "EnvironmentVariableCredentialsProvider",
    "ProfileCredentialsProvider",
    "IAMInstanceCredentialsProvider",
    "InstanceProfileCredentialsProvider",
    "ContainerCredentialsProvider",
    "WebIdentityTokenFileCredentialsProvider",
    "DefaultCredentialsProvider",
}
"""Credential providers with an equivalent in Arrow: given keys, or AWS's default chain."""

_TRUE, _FALSE = "true", "false"


class HadoopSettings(msgspec.Struct, frozen=True):
    """Settings of object stores, under their Hadoop names. Some values are secrets."""

    values: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Settings({', '.join(sorted(self.values))})"

    def of(self, bucket: str) -> dict[str, str]:
        """Settings of one bucket, without the prefix `fs.s3a.`."""
        every = {name.removeprefix(S3A): value for name, value in self.values.items()}
        own = f"{_BUCKET}{bucket}."
        general = {name: value for name, value in every.items() if not name.startswith(_BUCKET)}
        return general | {
            name.removeprefix(own): value for name, value in every.items() if name.startswith(own)
        }


NONE = HadoopSettings()


def settings(conf: Mapping[str, str]) -> HadoopSettings:
    """Read the settings from Spark's configuration and from core-site.xml in HADOOP_CONF_DIR.

    Raises:
        BadStoreSetting: the file cannot be read, or a setting lacks Spark's prefix.
    """
    for name in conf:
        if name.startswith("fs."):  # ignored, it would leave the requests to AWS
            raise BadStoreSetting(f"{name} is no setting of Spark: write {OF_SPARK}{name}")
    folder = os.environ.get("HADOOP_CONF_DIR")
    properties = _in_file(Path(folder) / "core-site.xml") if folder else {}
    properties |= {
        name.removeprefix(OF_SPARK): value for name, value in conf.items() if is_hadoops(name)
    }
    return HadoopSettings(
        {name: value for name, value in properties.items() if name.startswith(S3A)}
    )


def is_hadoops(name: str) -> bool:
    """True if a Spark setting belongs to Hadoop."""
    return name.startswith(OF_SPARK)


def _in_file(path: Path) -> dict[str, str]:
    try:
        root = ET.fromstring(path.read_bytes())  # noqa: S314 - the operator's own file
    except FileNotFoundError:
        return {}
    except (OSError, ET.ParseError) as error:
        raise _unreadable(path, error) from None
    try:
        ElementInclude.include(root, base_url=str(path))  # often a file with the keys
    except (OSError, SyntaxError) as error:
        raise _unreadable(path, error) from None
    pairs = (
        (element.findtext("name"), element.findtext("value")) for element in root.iter("property")
    )
    properties = {name.strip(): (value or "").strip() for name, value in pairs if name}
    return {
        name: _expanded(value, properties)
        for name, value in properties.items()
        if name.startswith(S3A)
    }


def _unreadable(path: Path, error: Exception) -> BadStoreSetting:
    return BadStoreSetting(f"{path} cannot be read ({error}): correct it, or unset HADOOP_CONF_DIR")


_VARIABLE = re.compile(r"\$\{([^${}\s]+)\}")
_ENVIRONMENT = re.compile(r"env\.(?P<name>.*?)(?:(?P<colon>:?)-(?P<default>.*))?")
_MAX_EXPANSIONS = 20


def _expanded(value: str, properties: Mapping[str, str]) -> str:
    """Expand `${NAME}`, the innermost first, as Hadoop's `Configuration.substituteVars`.

    An unknown variable ends the expansion. A variable that names itself leaves the value unchanged.

    Raises:
        BadStoreSetting: the variables are nested too deeply.
    """
    expanded = value
    for _ in range(_MAX_EXPANSIONS):
        match = _VARIABLE.search(expanded)
        content = None if match is None else _variable(match[1], properties)
        if match is None or content is None:
            return expanded
        if match[0] in content:
            return value
        expanded = expanded[: match.start()] + content + expanded[match.end() :]
    raise BadStoreSetting(
        f"{S3A}… in core-site.xml needs more than {_MAX_EXPANSIONS} variables, or they form a "
        "loop: write the value out"
    )


def _variable(name: str, properties: Mapping[str, str]) -> str | None:
    """Value of a property or of `env.NAME`, which may have a default after `-` or `:-`.

    None if it is unknown. A default after `:-` also replaces an empty value.
    """
    match = _ENVIRONMENT.fullmatch(name)
    if match is None or name == "env.":
        return properties.get(name)
    content = os.environ.get(match["name"])
    if match["default"] is not None and (content is None or (match["colon"] and not content)):
        return match["default"]
    return content


# --- in Arrow's words ---------------------------------------------------------------------------


def for_arrow(hadoop_settings: HadoopSettings, bucket: str) -> dict[str, Any]:
    """Options of `pyarrow.fs.S3FileSystem` for a bucket; empty means AWS's defaults.

    Raises:
        BadStoreSetting: a setting is unknown, or Arrow has no equivalent.
    """
    names = hadoop_settings.of(bucket)
    check_known(names)
    options: dict[str, Any] = {
        _NAMES[name]: value for name, value in names.items() if value and name in _NAMES
    }
    if ("access_key" in options) is not ("secret_key" in options):
        raise BadStoreSetting(
            f"{S3A}access.key and {S3A}secret.key belong together: give both or none"
        )
    return options | _endpoint(names) | _style(names) | _credentials(names)


def check_known(names: Iterable[str]) -> None:
    """Raise `BadStoreSetting` for a setting that is neither honoured nor known to be harmless."""
    for name in sorted(names):
        if name not in _NAMES and name not in _TRANSLATED and not _TUNING.match(name):
            raise BadStoreSetting(
                f"{S3A}{name} is not supported: leave it out "
                "(docs/archives.md, Object stores, lists the supported ones)"
            )


def _endpoint(names: Mapping[str, str]) -> dict[str, Any]:
    endpoint = names.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL_S3")
    endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL")
    if not endpoint:
        return {}
    parts = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
    if (
        not parts.netloc
        or "@" in parts.netloc
        or parts.path.strip("/")
        or not _has_valid_port(parts)
    ):
        raise BadStoreSetting(
            f"{S3A}endpoint is neither host:port nor http(s)://host:port: correct it"
        )
    if parts.netloc == _CENTRAL:
        return {}
    encrypted = _is_set(names, "connection.ssl.enabled", default=True)
    return {
        "endpoint_override": parts.netloc,
        "scheme": parts.scheme or ("https" if encrypted else "http"),
    }


def _has_valid_port(parts: SplitResult) -> bool:
    """True if a URL has no port, or a number from 1 to 65535."""
    try:
        return parts.port != 0
    except ValueError:
        return False


def _style(names: Mapping[str, str]) -> dict[str, Any]:
    """Addressing style: with an endpoint Arrow puts the bucket into the path by default."""
    return (
        {}
        if _is_set(names, "path.style.access", default=True)
        else {"force_virtual_addressing": True}
    )


def _credentials(names: Mapping[str, str]) -> dict[str, Any]:
    classes = re.findall(r"[^\s,]+", names.get("aws.credentials.provider", ""))
    providers = [provider.rpartition(".")[2] for provider in classes]
    for provider in providers:
        if provider not in _PROVIDERS and provider != _ANONYMOUS:
            raise BadStoreSetting(
                f"{S3A}aws.credentials.provider names {provider}, which only Hadoop has: give "
                "keys, or use AWS's environment variables or the machine's role"
            )
    return {"anonymous": True} if providers == [_ANONYMOUS] else {}


def _is_set(names: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = names.get(name, _TRUE if default else _FALSE).lower()
    if value not in (_TRUE, _FALSE):
        raise BadStoreSetting(f"{S3A}{name} is {_TRUE} or {_FALSE}, not {value!r}")
    return value == _TRUE
