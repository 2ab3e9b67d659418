"""S3 servers in processes of their own that a test can kill: S3Proxy and SeaweedFS."""

import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tests.go_programs import GoProgramUnavailable, go_program
from tests.jars import JarsUnavailable, jar_alone
from tests.kafka.process import JavaProgram, Program
from tests.ports import free_ports
from tests.replay.archive.buckets import Bucket

S3PROXY = "org.gaul:s3proxy:4.0.0:jar:jar-with-dependencies"
"""Jar of the server; it contains all its dependencies (100 MB)."""

MAIN = "org.gaul.s3proxy.Main"

WEED = ("github.com/seaweedfs/seaweedfs/weed", "v0.0.0-20261109003541-7506e5f91cd6")
"""Package and version of SeaweedFS 4.53. Its tags have no form that Go takes for versions."""

IDENTITY, CREDENTIAL = "archivist", "a-secret-of-this-test"

BUCKET = "fleet"

VOLUME_MB, VOLUMES = 64, 100
"""Size and number of SeaweedFS's volumes. A bucket takes seven, and by default 30 GB each."""


class ObjectServer:
    """S3 server with one bucket, which is created at the first start."""

    def __init__(self, program: Program, port: int) -> None:
        self.bucket = Bucket(f"127.0.0.1:{port}", BUCKET, IDENTITY, CREDENTIAL)
        self._program = program

    def start(self) -> None:
        """Start the server and wait until it takes objects; after a kill it has the same ones."""
        self._program.start()
        asyncio.run(self._program.ready(lambda: asyncio.to_thread(self._takes_objects)))

    def kill(self) -> None:
        """Kill the server, as a crash does."""
        asyncio.run(self._program.end(signal.SIGKILL))

    def _takes_objects(self) -> bool:
        """True if the bucket exists, and a new object could be written."""
        s3 = boto3.Session(IDENTITY, CREDENTIAL, region_name="us-east-1").client(
            "s3",
            endpoint_url=f"http://{self.bucket.endpoint}",
            config=Config(retries={"total_max_attempts": 1}),
        )
        try:
            with suppress(s3.exceptions.BucketAlreadyOwnedByYou, s3.exceptions.BucketAlreadyExists):
                s3.create_bucket(Bucket=BUCKET)
            s3.put_object(Bucket=BUCKET, Key="ready", Body=b"ready")
            s3.delete_object(Bucket=BUCKET, Key="ready")
        except (BotoCoreError, ClientError):
            return False
        return True


class S3Proxy(ObjectServer):
    """S3Proxy, a server in Java: each object is a file in a folder.

    Raises:
        JarsUnavailable: Maven could not fetch the server.
    """

    def __init__(self, folder: Path) -> None:
        (port,) = free_ports(1)
        self.files = folder / "files"
        self.files.mkdir()
        settings = {
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.endpoint": f"http://127.0.0.1:{port}",
            "s3proxy.identity": IDENTITY,
            "s3proxy.credential": CREDENTIAL,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": self.files,
        }
        file = folder / "s3proxy.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        words = (str(jar_alone(S3PROXY)), MAIN, "--properties", str(file))
        super().__init__(JavaProgram("s3proxy", folder, *words), port)


class SeaweedFS(ObjectServer):
    """SeaweedFS, a server in Go: master, volume server, filer and S3 gateway in one process.

    Raises:
        GoProgramUnavailable: Go could not download or build the server.
    """

    def __init__(self, folder: Path) -> None:
        parts = ("master", "volume", "filer", "s3")
        names = [f"{part}.{port}" for part in parts for port in ("port", "port.grpc")]
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        (folder / "volumes").mkdir()
        identity = {
            "name": IDENTITY,
            "credentials": [{"accessKey": IDENTITY, "secretKey": CREDENTIAL}],
            "actions": ["Admin", "Read", "Write", "List"],
        }
        file = folder / "s3.json"
        file.write_text(json.dumps({"identities": [identity]}))
        options: dict[str, object] = {
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "dir": folder / "volumes",
            "filer": "true",
            "filer.localSocket": folder / "filer.sock",
            "s3": "true",
            "s3.config": file,
            "s3.localSocket": folder / "s3.sock",
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            "master.peers": "none",  # alone, it need not wait 10 s to 20 s for an election
            "master.telemetry": "false",
            "master.volumeSizeLimitMB": VOLUME_MB,
            "volume.max": VOLUMES,
            **ports,
        }
        words = (f"-{name}={value}" for name, value in options.items())
        command = [str(go_program(*WEED)), "-logtostderr=true", "server", *words]
        super().__init__(Program("seaweedfs", folder, command), ports["s3.port"])


SERVERS = [
    pytest.param(S3Proxy, id="s3proxy", marks=pytest.mark.java),
    pytest.param(SeaweedFS, id="seaweedfs", marks=pytest.mark.go),
]
"""Parameters of tests that are run on each server."""

Server = TypeVar("Server", bound=ObjectServer)


@contextmanager
def running(kind: Callable[[Path], Server], folder: Path) -> Iterator[Server]:
    """Yield a running server with files in a folder; skip the test if it is unavailable."""
    try:
        server = kind(folder)
    except (JarsUnavailable, GoProgramUnavailable) as missing:
        pytest.skip(str(missing))
    server.start()
    try:
        yield server
    finally:
        server.kill()
