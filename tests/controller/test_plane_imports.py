"""An embedded plane without HTTP: the HTTP modules are imported with `plane.app` only."""

import subprocess
import sys

_PROGRAM = """
import asyncio, sys
from controlplane import ControlPlane, CreateConnector

CONFIG = {"connector.class": "FileStreamSource", "topic": "lines", "tasks.max": "1"}


async def main():
    async with ControlPlane.open("memory:") as plane:
        await plane.execute(CreateConnector("lines", CONFIG))
        print(*sorted(name for name in sys.modules if name.startswith(HTTP)))
        print(type(plane.app).__name__)


HTTP = ("controlplane.rest", "starlette", "uvicorn", "h11", "httpx")
asyncio.run(main())
"""


def test_a_plane_without_http_imports_none() -> None:
    """A program opens a plane and runs a command before it uses `plane.app`."""
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == ["", "App"]
