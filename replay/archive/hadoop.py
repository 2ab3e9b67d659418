"""Hadoop's settings of object stores (`fs.s3a.…`), and what Arrow calls them.

Files are read by Arrow, wherever that happens, and Hadoop's jars are not needed. But who runs Spark
has such settings in Hadoop's words, in core-site.xml or told to Spark. Each that decides which
bytes are read, or how they are kept, is heeded or refused; those that tune Hadoop's own client are
passed over.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

import msgspec

from replay.errors import BadSetting

OF_SPARK = "spark.hadoop."
"""What stands before a setting of Hadoop's among Spark's."""

S3A = "fs.s3a."

_BUCKET = "bucket."
"""`fs.s3a.bucket.B.endpoint` is `fs.s3a.endpoint` of one bucket."""

_NAMES = {
    "access.key": "access_key",
    "secret.key": "secret_key",
    "session.token": "session_token",
    "endpoint.region": "region",
}
"""What Arrow calls a setting whose value it takes as it is."""

_WORKED_OUT = (
    "endpoint",
    "connection.ssl.enabled",
    "path.style.access",
    "aws.credentials.provider",
)

_CENTRAL = "s3.amazonaws.com"
"""The endpoint that is AWS, wherever a bucket lies."""

_TUNING = re.compile(
    "impl|attempts|audit|block|buffer|change|committer|connection|directory|downgrade|etag|executor"
    "|experimental|fast|input|list|max|multiobjectdelete|multipart|paging|performance|prefetch"
    "|readahead|retry|select|socket|ssl|threads|user|vectored"
)
"""With what names begin that say how Hadoop's own client works, and not with what."""

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
"""Those that Arrow asks by itself: keys that were told, else what AWS's own tools would take."""

_TRUE, _FALSE = "true", "false"


class Settings(msgspec.Struct, frozen=True):
    """The settings that concern object stores, by their names in Hadoop. Some are secrets."""

    told: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Settings({', '.join(sorted(self.told))})"

    def of(self, bucket: str) -> dict[str, str]:
        """Those of one bucket, without `fs.s3a.` before their names."""
        every = {name.removeprefix(S3A): value for name, value in self.told.items()}
        own = f"{_BUCKET}{bucket}."
        general = {name: one for name, one in every.items() if not name.startswith(_BUCKET)}
        return general | {
            name.removeprefix(own): one for name, one in every.items() if name.startswith(own)
        }


NONE = Settings()


def settings(conf: Mapping[str, str]) -> Settings:
    """What Spark is told, and what stands in the core-site.xml of HADOOP_CONF_DIR.

    Raises:
        BadSetting: the file cannot be read.
    """
    folder = os.environ.get("HADOOP_CONF_DIR")
    found = _in_file(Path(folder) / "core-site.xml") if folder else {}
    found |= {name.removeprefix(OF_SPARK): one for name, one in conf.items() if is_hadoops(name)}
    return Settings({name: one for name, one in found.items() if name.startswith(S3A)})


def is_hadoops(name: str) -> bool:
    """Whether a setting of Spark's is one of Hadoop's."""
    return name.startswith(OF_SPARK)


def _in_file(path: Path) -> dict[str, str]:
    try:
        root = ET.fromstring(path.read_bytes())  # noqa: S314 - it is ours, as a worker's properties
    except FileNotFoundError:
        return {}
    except (OSError, ET.ParseError) as error:
        raise BadSetting(
            f"{path} cannot be read ({error}): mend it, or unset HADOOP_CONF_DIR"
        ) from None
    pairs = ((one.findtext("name"), one.findtext("value")) for one in root.iter("property"))
    found = {name.strip(): (value or "").strip() for name, value in pairs if name}
    return {
        name: _VARIABLE.sub(lambda one: _variable(one, found), value)
        for name, value in found.items()
    }


_VARIABLE = re.compile(r"\$\{([^${}\s]+)\}")
_ENVIRONMENT = "env."


def _variable(found: re.Match[str], properties: Mapping[str, str]) -> str:
    """`${env.NAME}` is of the environment, `${NAME}` another property; others stay as they are."""
    name = found[1]
    of_environment = name.startswith(_ENVIRONMENT)
    known = (
        os.environ.get(name.removeprefix(_ENVIRONMENT)) if of_environment else properties.get(name)
    )
    return found[0] if known is None else known


# --- in Arrow's words ---------------------------------------------------------------------------


def for_arrow(told: Settings, bucket: str) -> dict[str, Any]:
    """What `pyarrow.fs.S3FileSystem` is to be told of a bucket. Nothing: AWS's own defaults.

    Raises:
        BadSetting: one is unknown, or nothing that Arrow could be told.
    """
    names = told.of(bucket)
    check_known(names)
    found: dict[str, Any] = {
        _NAMES[name]: one for name, one in names.items() if one and name in _NAMES
    }
    if ("access_key" in found) is not ("secret_key" in found):
        raise BadSetting(f"{S3A}access.key and {S3A}secret.key belong together: give both or none")
    return found | _endpoint(names) | _style(names) | _credentials(names)


def check_known(names: Iterable[str]) -> None:
    """Raise `BadSetting` for a name that is neither heeded nor of no consequence."""
    for name in sorted(names):
        if name not in _NAMES and name not in _WORKED_OUT and not _TUNING.match(name):
            raise BadSetting(
                f"{S3A}{name} is no setting that is understood here: leave it out "
                "(docs/replay.md, Object stores, has those that are)"
            )


def _endpoint(names: Mapping[str, str]) -> dict[str, Any]:
    told = names.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL_S3")
    told = told or os.environ.get("AWS_ENDPOINT_URL")
    if not told:
        return {}
    parts = urlsplit(told if "://" in told else f"//{told}")
    if not parts.netloc or "@" in parts.netloc or parts.path.strip("/"):
        raise BadSetting(f"{S3A}endpoint is neither host:port nor http(s)://host:port: mend it")
    if parts.netloc == _CENTRAL:
        return {}
    encrypted = _is_set(names, "connection.ssl.enabled", default=True)
    return {
        "endpoint_override": parts.netloc,
        "scheme": parts.scheme or ("https" if encrypted else "http"),
    }


def _style(names: Mapping[str, str]) -> dict[str, Any]:
    """Arrow names a bucket in the path wherever an endpoint is told, unless it is told not to."""
    return (
        {}
        if _is_set(names, "path.style.access", default=True)
        else {"force_virtual_addressing": True}
    )


def _credentials(names: Mapping[str, str]) -> dict[str, Any]:
    classes = re.findall(r"[^\s,]+", names.get("aws.credentials.provider", ""))
    providers = [one.rpartition(".")[2] for one in classes]
    for one in providers:
        if one not in _PROVIDERS and one != _ANONYMOUS:
            raise BadSetting(
                f"{S3A}aws.credentials.provider names {one}, which only Hadoop has: give keys, or "
                "leave it to AWS's environment variables or the machine's role"
            )
    return {"anonymous": True} if providers == [_ANONYMOUS] else {}


def _is_set(names: Mapping[str, str], name: str, *, default: bool) -> bool:
    told = names.get(name, _TRUE if default else _FALSE).lower()
    if told not in (_TRUE, _FALSE):
        raise BadSetting(f"{S3A}{name} is {_TRUE} or {_FALSE}, not {told!r}")
    return told == _TRUE
