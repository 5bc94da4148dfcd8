"""The client: every operation as a method, such as `client.task.create(goal="...")`, and questions to people as `client.hxp`."""
import asyncio
import functools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, AsyncIterator, Callable, Dict, Iterator, Optional, Tuple, TypeVar

from .async_operations import AsyncOperations
from .hxp import Answer, Hxp
from .nouns import UNSET, KeyOption
from .operations import Operations
from .transport import Retry, Transport

URL_USUAL = "http://127.0.0.1:3402"
T = TypeVar("T")


def url_of(url: Optional[str]) -> str:
    return url or os.environ.get("COUNTERSIGN_URL") or URL_USUAL


class Client(Operations):
    """A client of a server, for one credential. Threads can share it.

    `url` is COUNTERSIGN_URL or http://127.0.0.1:3402 by default, `key` is COUNTERSIGN_KEY.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        key: Optional[str] = None,
        *,
        retry: Optional[Retry] = None,
        headers: Optional[Dict[str, str]] = None,
        transport: Optional[Transport] = None,
    ) -> None:
        usual = os.environ.get("COUNTERSIGN_KEY") or None
        self.transport = transport or Transport(url_of(url), key or usual, retry, headers)
        self._bind(self.send)
        self.hxp = Hxp(self.transport)

    def send(self, operation: str, body: Dict[str, Any], idempotency_key: KeyOption = UNSET, request_timeout: Optional[float] = None) -> Any:
        """Any command or query by its full name, such as `collaboration/task.create`."""
        return self.transport.call(operation, body, idempotency_key, request_timeout)

    def each(self, list_operation: Callable[..., Any], **filters: Any) -> Iterator[Any]:
        """Every item of a list, page by page: `for task in client.each(client.task.list, state="blocked")`."""
        cursor: Any = UNSET
        while cursor is not None:
            page = list_operation(cursor=cursor, **filters)
            yield from page["items"]
            cursor = page["next_cursor"]

    def follow(self, operation: str, *, after: Optional[str] = None, **body: Any) -> Iterator[Tuple[str, Any]]:
        """The events of a stream, each with its cursor: `client.follow("collaboration/audit.follow", task_id=...)`."""
        return self.transport.follow(operation, body, after)

    def put_bytes(self, operation: str, data: bytes, *, idempotency_key: KeyOption = UNSET, **body: Any) -> Any:
        """An operation that takes bytes: `client.put_bytes("collaboration/artifact.upload", data, task_id=...)`."""
        return self.transport.upload(operation, body, data, idempotency_key)

    def get_bytes(self, operation: str, **body: Any) -> Tuple[bytes, Optional[str]]:
        """The bytes and the file name that an operation names, compared with their checksum."""
        return self.transport.download(operation, body)

    def close(self) -> None:
        self.transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncHxp:
    """`client.hxp` for asyncio: the same questions, awaited."""

    def __init__(self, hxp: Hxp, run: Callable[..., Any]) -> None:
        self._hxp = hxp
        self._run = run

    async def approve(self, item: str, **options: Any) -> Answer:
        return await self._run(self._hxp.approve, item, **options)

    async def decide(self, question: str, choices: Any, **options: Any) -> Answer:
        return await self._run(self._hxp.decide, question, choices, **options)

    async def provide(self, prompt: str, **options: Any) -> Answer:
        return await self._run(self._hxp.provide, prompt, **options)

    async def verify(self, claim: str, **options: Any) -> Answer:
        return await self._run(self._hxp.verify, claim, **options)

    async def outcome(self, request_id: str, **options: Any) -> Answer:
        return await self._run(self._hxp.outcome, request_id, **options)


class AsyncClient(AsyncOperations):
    """The client for asyncio. `concurrency` bounds the calls in flight; the rest wait for their turn."""

    def __init__(self, url: Optional[str] = None, key: Optional[str] = None, *, concurrency: int = 64, **options: Any) -> None:
        self._client = Client(url, key, **options)
        self._pool = ThreadPoolExecutor(concurrency, "countersign")
        self._bind(self.send)
        self.hxp = AsyncHxp(self._client.hxp, self._in_thread)

    async def _in_thread(self, function: Callable[..., T], *args: Any, **options: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, functools.partial(function, *args, **options))

    async def send(
        self, operation: str, body: Dict[str, Any], idempotency_key: KeyOption = UNSET, request_timeout: Optional[float] = None
    ) -> Any:
        return await self._in_thread(self._client.send, operation, body, idempotency_key, request_timeout)

    async def each(self, list_operation: Callable[..., Any], **filters: Any) -> AsyncIterator[Any]:
        cursor: Any = UNSET
        while cursor is not None:
            page = await list_operation(cursor=cursor, **filters)
            for item in page["items"]:
                yield item
            cursor = page["next_cursor"]

    async def follow(self, operation: str, *, after: Optional[str] = None, **body: Any) -> AsyncIterator[Tuple[str, Any]]:
        events = self._client.follow(operation, after=after, **body)
        over: Any = object()
        while True:
            event = await self._in_thread(next, events, over)
            if event is over:
                return
            yield event

    async def put_bytes(self, operation: str, data: bytes, **body: Any) -> Any:
        return await self._in_thread(self._client.put_bytes, operation, data, **body)

    async def get_bytes(self, operation: str, **body: Any) -> Tuple[bytes, Optional[str]]:
        return await self._in_thread(self._client.get_bytes, operation, **body)

    async def close(self) -> None:
        self._client.close()
        self._pool.shutdown(wait=False)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
