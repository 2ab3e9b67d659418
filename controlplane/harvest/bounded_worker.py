"""HTTP client of a worker, with bounds on the size and time of its answers."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import httpx

from controlplane.core.text.safe_text import safe, short
from controlplane.harvest.harvest_result import NoAnswer, NoWorker, decoded


class HarvestBounds(NamedTuple):
    """Bounds of the answers of one worker."""

    answer_bytes: int = 16 << 20
    """Maximum size of the body of one answer."""
    all_bytes: int = 64 << 20
    """Maximum size of the bodies of all answers together."""
    answer_s: float = 100.0
    """Longest time in seconds for one answer; a worker itself times out after 90 s."""
    all_s: float = 1_800.0
    """Longest time in seconds for all answers together."""


_Decoded = TypeVar("_Decoded")


class WorkerRefusal(Exception):
    """The worker refuses a request. The message is the worker's."""


class BoundedWorker:
    """Worker that gets one request after the other."""

    def __init__(
        self, client: httpx.AsyncClient, name: str, bounds: HarvestBounds | None = None
    ) -> None:
        self._client = client
        self.name = name
        self._bounds = bounds = bounds or HarvestBounds()
        self._left_bytes = bounds.all_bytes
        self._deadline = asyncio.get_running_loop().time() + bounds.all_s

    async def get(self, path: str, kind: type[_Decoded]) -> _Decoded:
        """The answer to `GET path`, of this type.

        Raises:
            WorkerRefusal: the worker refuses this question.
            NoAnswer: there is no answer within the bounds.
            NoWorker: the answer is not that of a Connect worker.
        """
        return await self._decoded_answer("GET", path, None, kind)

    async def put(self, path: str, body: Mapping[str, str], kind: type[_Decoded]) -> _Decoded:
        """The answer to `PUT path`, of this type; raises as `get` does."""
        return await self._decoded_answer("PUT", path, json.dumps(body).encode(), kind)

    async def _decoded_answer(
        self, method: str, path: str, body: bytes | None, kind: type[_Decoded]
    ) -> _Decoded:
        request, bounds = f"{method} {safe(path)}", self._bounds
        left_s = self._deadline - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(min(bounds.answer_s, left_s)):
                success, answer = await self._answer(method, path, body)
        except TimeoutError:
            whole = f"{bounds.all_s:g} s for all answers"
            within = f"{bounds.answer_s:g} s" if left_s > bounds.answer_s else whole
            raise NoAnswer(f"{self.name} gave no answer to {request} within {within}") from None
        except (httpx.HTTPError, httpx.InvalidURL) as failure:
            why = safe(str(failure)) or type(failure).__name__
            raise NoAnswer(f"{self.name} gave no answer to {request} ({why})") from None
        if not success:
            raise WorkerRefusal(_message(answer))
        return decoded(answer, kind, self.name, request)

    async def _answer(self, method: str, path: str, body: bytes | None) -> tuple[bool, bytes]:
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        if body is not None:
            headers["content-type"] = "application/json"
        response_stream = self._client.stream(method, path, content=body, headers=headers)
        async with response_stream as answer:
            if answer.headers.get("content-encoding", "identity").lower() != "identity":
                raise NoWorker(
                    f"{self.name} compresses its answers despite `accept-encoding: identity`: "
                    "give the URL of the worker itself"
                )
            return answer.is_success, await self._read(answer, f"{method} {safe(path)}")

    async def _read(self, answer: httpx.Response, request: str) -> bytes:
        content, bounds = bytearray(), self._bounds
        async for chunk in answer.aiter_raw():
            content += chunk
            self._left_bytes -= len(chunk)
            if len(content) > bounds.answer_bytes:
                most = f"{bounds.answer_bytes:,} bytes"
                raise NoAnswer(f"{self.name} answers {request} with more than {most}")
            if self._left_bytes < 0:
                most = f"{bounds.all_bytes:,} bytes"
                raise NoAnswer(f"{self.name} answers with more than {most} in all")
        return bytes(content)


def _message(answer: bytes) -> str:
    """Message of a refusal on one line."""
    try:
        document: Any = json.loads(answer)
    except (ValueError, RecursionError):
        document = None
    message = document.get("message") if isinstance(document, dict) else None
    return short(str(message or "the answer gives no reason"))
