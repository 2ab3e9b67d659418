"""S3 server in a process of its own that a test can kill: S3Proxy on a folder."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import httpx
import pytest

from tests.jars import JarsUnavailable, jar_alone
from tests.kafka.process import JavaProgram
from tests.ports import free_ports
from tests.replay.archive.buckets import Bucket

S3PROXY = "org.gaul:s3proxy:4.0.0:jar:jar-with-dependencies"
"""Jar of the server; it contains all its dependencies (100 MB)."""

MAIN = "org.gaul.s3proxy.Main"
IDENTITY, CREDENTIAL = "archivist", "a-secret-of-this-test"

BUCKET = "fleet"


class ObjectServer:
    """S3 server with one bucket, on the files of a folder."""

    def __init__(self, folder: Path, jar: Path) -> None:
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
        self.bucket = Bucket(f"127.0.0.1:{port}", BUCKET, IDENTITY, CREDENTIAL)
        self._program = JavaProgram("s3proxy", folder, str(jar), MAIN, "--properties", str(file))

    def start(self) -> None:
        """Start the server and wait until it answers; after a kill it has the same files."""
        self._program.start()
        asyncio.run(self._program.ready(self._answers))

    def kill(self) -> None:
        """Kill the server, as a crash does."""
        asyncio.run(self._program.end(signal.SIGKILL))

    async def _answers(self) -> bool:
        try:
            async with httpx.AsyncClient() as client:
                await client.get(f"http://{self.bucket.endpoint}")
        except httpx.TransportError:
            return False
        return True


@contextmanager
def object_server(folder: Path) -> Iterator[ObjectServer]:
    """Yield a running server with its bucket; skip the test if its jars are unavailable."""
    try:
        server = ObjectServer(folder, jar_alone(S3PROXY))
    except JarsUnavailable as missing:
        pytest.skip(str(missing))
    server.start()
    try:
        session = boto3.Session(IDENTITY, CREDENTIAL, region_name="us-east-1")
        s3 = session.client("s3", endpoint_url=f"http://{server.bucket.endpoint}")
        s3.create_bucket(Bucket=BUCKET)
        yield server
    finally:
        server.kill()
