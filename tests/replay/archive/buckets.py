"""Object store that speaks S3 over HTTP in this process (moto)."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import boto3
import pytest
from moto import backends, settings
from moto.core.authorization import ActionAuthenticatorMixin
from moto.server import ThreadedMotoServer
from pyarrow import fs

from replay.archive.stores.hadoop_settings import HadoopSettings
from replay.archive.stores.store import ArchiveStore, open_store
from tests.conftest import ROOT
from tests.replay.cli.replay_calls import call

LOGS = [
    f"{name}={ROOT}/tests/histories/{history}.log.jsonl"
    for name, history in (("life", "life-3.9"), ("roll", "roll-3.4-3.9-3.4"))
]

_POLICY = """{
  "Version": "2012-10-17",
  "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]
}"""


class Bucket(NamedTuple):
    """Bucket, its endpoint and its keys."""

    endpoint: str
    """Address of the object store as `host:port`."""
    name: str
    key: str
    secret: str

    @property
    def system(self) -> fs.S3FileSystem:
        """Arrow's file system of the bucket."""
        return fs.S3FileSystem(
            access_key=self.key,
            secret_key=self.secret,
            endpoint_override=self.endpoint,
            scheme="http",
            region="us-east-1",
        )

    @property
    def hadoop(self) -> dict[str, str]:
        """Hadoop settings with which Spark reads the bucket."""
        return {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.access.key": self.key,
            "fs.s3a.secret.key": self.secret,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false",
            "fs.s3a.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        }

    def conf(self, **other: str) -> list[str]:
        """Hadoop settings as command-line options; keywords change some, as `access_key="x"`."""
        properties = self.hadoop | {
            f"fs.s3a.{name.replace('_', '.')}": value for name, value in other.items()
        }
        pairs = (("--conf", f"spark.hadoop.{name}={value}") for name, value in properties.items())
        return [word for pair in pairs for word in pair]


@contextmanager
def serving() -> Iterator[str]:
    """Serve S3 within the block; yield host:port.

    All servers of this process share their buckets.
    """
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backends, "list_of_moto_modules", _services)
        server.start()
        try:
            host, port = server.get_host_and_port()
            yield f"{host}:{port}"
        finally:
            server.stop()


_list_of_services = backends.list_of_moto_modules


@cache
def _services() -> tuple[str, ...]:
    """Names of the services, cached: moto would list its folder of services twice per request."""
    return tuple(_list_of_services())


@contextmanager
def bucket(name: str) -> Iterator[Bucket]:
    """Create a bucket that only one key opens."""
    with serving() as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging.getLogger("werkzeug"), "disabled", True)
        key = _key(f"http://{endpoint}", name)
        # From now on, keys are checked.
        patch.setattr(settings, "INITIAL_NO_AUTH_ACTION_COUNT", 0)
        patch.setattr(ActionAuthenticatorMixin, "request_count", 0)
        yield Bucket(endpoint, name, key["AccessKeyId"], key["SecretAccessKey"])


def _key(endpoint: str, bucket_name: str) -> dict[str, str]:
    """Create a bucket, and a user with all rights on it."""
    anybody = boto3.Session("any", "any", region_name="us-east-1")
    anybody.client("s3", endpoint_url=endpoint).create_bucket(Bucket=bucket_name)
    users = anybody.client("iam", endpoint_url=endpoint)
    name = f"archivist-of-{bucket_name}"
    users.create_user(UserName=name)
    users.put_user_policy(UserName=name, PolicyName="all", PolicyDocument=_POLICY)
    made: dict[str, str] = users.create_access_key(UserName=name)["AccessKey"]
    return made


def archived(store: Bucket, where: str, folder: Path) -> str:
    """Capture `LOGS` into the bucket and copy all files into a folder; return the archive's URL."""
    url = f"s3a://{store.name}/{where}"
    for again in (False, True):  # the second capture adds no record
        result = call("capture", *LOGS, url, "-o", "json", *store.conf())
        assert (result.code, [bool(capture["added"]) for capture in result.json]) == (
            0,
            [not again] * 2,
        ), result
    fs.copy_files(
        f"{store.name}/{where}",
        str(folder),
        source_filesystem=store.system,
        destination_filesystem=fs.LocalFileSystem(),
    )
    return url


def in_bucket(stores: Bucket, folder: Path) -> ArchiveStore:
    """Folder in a bucket, with the same name as a local folder."""
    return open_store(f"s3a://{stores.name}{folder}", HadoopSettings(stores.hadoop))


def in_store(kind: str, stores: Bucket, folder: Path) -> ArchiveStore:
    """Store of an archive: the kind is `folder` or `objects`."""
    if kind == "folder":
        return open_store(str(folder / "archive"))
    return in_bucket(stores, folder)
