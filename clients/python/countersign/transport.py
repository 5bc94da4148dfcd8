"""HTTP on the standard library: kept connections, retries, and the errors of the server."""
import hashlib
import json
import os
import random
import re
import secrets
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple
from urllib.parse import quote, unquote, urlencode, urlsplit

from .errors import CountersignError, closed_error, network_error, timeout_error
from .nouns import UNSET, KeyOption

#: Statuses that a proxy answers in the server's place.
PASSING = frozenset([408, 429, 502, 503, 504])
ANSWER_BYTES_MAX = 64 * 1024 * 1024
#: An event stream without a heartbeat for this long is dead.
SILENCE_S = 60.0
IDLE_MAX = 64


@dataclass(frozen=True)
class Retry:
    """How a call is retried: `attempts` at most, with a pause that begins with `backoff` seconds and doubles."""

    attempts: int = 6
    backoff: float = 0.1
    #: A server that asks for a longer wait gets its way: the error is raised, with `retry_after`.
    wait_max: float = 10.0
    #: Seconds for one attempt.
    timeout: float = 30.0


def backoff_of(retry: Retry, made: int) -> float:
    return min(retry.wait_max, retry.backoff * 2 ** min(made - 1, 20)) * (0.5 + random.random() / 2)


def new_key() -> str:
    return secrets.token_hex(16)


class Transport:
    """Calls over HTTP. It can be used by many threads, and by the child of a fork."""

    def __init__(self, url: str, key: Optional[str] = None, retry: Optional[Retry] = None, headers: Optional[Dict[str, str]] = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("`url` must be an http or https address, not %r" % url)
        self.where = url.rstrip("/")
        self.retry = retry or Retry()
        self._parts = parts
        self._base = parts.path.rstrip("/")
        self._headers = dict(headers or {})
        if key is not None:
            self._headers["Authorization"] = "Bearer " + key
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._lock = threading.Lock()
        self._idle: List[HTTPConnection] = []
        self._pid = os.getpid()
        self._closed = False

    # --- Calls -------------------------------------------------------------------------------------------------------------

    def call(self, operation: str, body: Dict[str, Any], key: KeyOption = UNSET, timeout: Optional[float] = None) -> Any:
        """One operation, retried under one idempotency key. `key=None` sends none."""
        headers = {"Content-Type": "application/json"}
        if key is UNSET:
            key = new_key()
        if key is not None:
            headers["Idempotency-Key"] = key
        payload = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass")
        seconds = self.retry.timeout if timeout is None else timeout
        return self.retried(lambda: _json(*self.request("POST", operation, headers, payload, seconds)))

    def keys(self) -> Any:
        """The public keys that receipts are signed with."""
        return self.retried(lambda: _json(*self.request("GET", ".well-known/jwks.json", {}, None, self.retry.timeout)))

    def retried(self, attempt: Callable[[], Any]) -> Any:
        made = 0
        while True:
            made += 1
            try:
                return attempt()
            except CountersignError as error:
                wait = error.retry_after or 0
                if not error.retryable or made >= self.retry.attempts or wait > self.retry.wait_max:
                    raise
                time.sleep(max(backoff_of(self.retry, made), wait))

    def upload(self, operation: str, body: Dict[str, Any], data: bytes, key: KeyOption = UNSET) -> Any:
        checksum = "sha256:" + hashlib.sha256(data).hexdigest()
        path = operation + _query({**body, "checksum": checksum, "size": len(data)})
        headers = {"Content-Type": "application/octet-stream", "Idempotency-Key": new_key() if key is UNSET else key}
        return self.retried(lambda: _json(*self.request("PUT", path, headers, data, max(self.retry.timeout, len(data) / 100_000))))

    def download(self, operation: str, body: Dict[str, Any]) -> Tuple[bytes, Optional[str]]:
        """The bytes and the name of an artifact or file, compared with the checksum that the server names."""

        def receive() -> Tuple[bytes, Optional[str]]:
            response, data = self.request("GET", operation + _query(body), {}, None, self.retry.timeout)
            etag = response.getheader("etag")
            if etag is not None and etag != '"sha256:%s"' % hashlib.sha256(data).hexdigest():
                raise CountersignError("INVALID_ANSWER", "the downloaded bytes do not match the checksum of the server: download them again", status=response.status)
            name = re.search(r"filename\*=UTF-8''([^;]+)", response.getheader("content-disposition") or "", re.I)
            return data, unquote(name.group(1)) if name else None

        return self.retried(receive)

    def follow(self, operation: str, body: Dict[str, Any], after: Optional[str] = None) -> Iterator[Tuple[str, Any]]:
        """The events of a stream with their cursors. It continues over lost connections and restarted servers."""
        cursor, failures = after, 0
        while True:
            try:
                for moved, data in self._events(operation, body, cursor):
                    failures = 0
                    cursor = moved or cursor
                    if data is not None:
                        yield cursor or "", data
            except CountersignError as error:
                if not error.retryable:
                    raise
                failures += 1
                time.sleep(max(backoff_of(self.retry, failures), error.retry_after or 0))

    def _events(self, operation: str, body: Dict[str, Any], after: Optional[str]) -> Iterator[Tuple[Optional[str], Any]]:
        path = operation + _query(body if after is None else {**body, "after": after})
        connection = self._open(SILENCE_S)
        try:
            response = self._send(connection, "GET", path, {"Accept": "text/event-stream"}, None)
            if response.status != 200:
                raise refusal_of(response, response.read(ANSWER_BYTES_MAX))
            yield from _sse(response)
        except (OSError, HTTPException) as error:
            raise network_error("the stream broke: %s" % error) from error
        finally:
            connection.close()

    # --- Connections -------------------------------------------------------------------------------------------------------

    def request(self, method: str, path: str, headers: Dict[str, str], body: Optional[bytes], timeout: float) -> Tuple[HTTPResponse, bytes]:
        """One attempt: a response of status 2xx with its bytes, or a CountersignError."""
        connection, is_kept = self._take(timeout)
        try:
            try:
                response = self._send(connection, method, path, headers, body)
            except (ConnectionError, HTTPException):
                # The server closed a kept connection: it has not read this request.
                if not is_kept:
                    raise
                connection.close()
                connection = self._open(timeout)
                response = self._send(connection, method, path, headers, body)
            data = response.read(ANSWER_BYTES_MAX)
        except socket.timeout as error:
            connection.close()
            raise timeout_error(timeout) from error
        except (OSError, HTTPException) as error:
            connection.close()
            raise network_error("the server could not be reached: %s" % (error or type(error).__name__)) from error
        except BaseException:
            connection.close()
            raise
        if response.will_close or not response.isclosed():
            connection.close()
        else:
            self._give(connection)
        if not 200 <= response.status < 300:
            raise refusal_of(response, data)
        return response, data

    def _send(self, connection: HTTPConnection, method: str, path: str, headers: Dict[str, str], body: Optional[bytes]) -> HTTPResponse:
        prefix = "/" if path.startswith(".well-known/") else "/v1/"
        connection.request(method, self._base + prefix + path, body, {**self._headers, **headers})
        return connection.getresponse()

    def _open(self, timeout: float) -> HTTPConnection:
        if self._closed:
            raise closed_error()
        host, port = self._parts.hostname or "", self._parts.port
        if self._tls is not None:
            return HTTPSConnection(host, port, timeout=timeout, context=self._tls)
        return HTTPConnection(host, port, timeout=timeout)

    def _take(self, timeout: float) -> Tuple[HTTPConnection, bool]:
        with self._lock:
            if self._pid != os.getpid():
                # The connections belong to the parent of the fork.
                self._idle, self._pid = [], os.getpid()
            connection = self._idle.pop() if self._idle and not self._closed else None
        if connection is None:
            return self._open(timeout), False
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        return connection, True

    def _give(self, connection: HTTPConnection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < IDLE_MAX and self._pid == os.getpid():
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


# --- Answers ---------------------------------------------------------------------------------------------------------------


def _json(response: HTTPResponse, data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        raise CountersignError("INVALID_ANSWER", "the answer is not JSON", status=response.status) from None


def refusal_of(response: HTTPResponse, data: bytes) -> CountersignError:
    status = response.status
    after = response.getheader("retry-after") or ""
    seconds = float(after) if re.fullmatch(r"\d{1,6}", after) else None
    fault = _fault(data)
    # In the server's own words a request is late for good.
    retryable = status in PASSING and not (fault is not None and status == 408)
    if fault is None:
        message = "the server answered %d, and not in its own words: is there a proxy in between?" % status
        code = "UNAVAILABLE" if retryable else "INVALID_ANSWER"
        return CountersignError(code, message, status=status, retryable=retryable, retry_after=seconds)
    details = fault.get("details")
    return CountersignError(
        fault["code"],
        fault["message"],
        status=status,
        details=details if isinstance(details, dict) else {},
        retryable=retryable,
        retry_after=seconds,
    )


def _fault(data: bytes) -> Optional[Dict[str, Any]]:
    try:
        error = json.loads(data)["error"]
        return error if isinstance(error["code"], str) and isinstance(error["message"], str) else None
    except (ValueError, KeyError, TypeError):
        return None


def _query(body: Dict[str, Any]) -> str:
    pairs = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in body.items() if value is not UNSET}
    return "?" + urlencode(pairs, quote_via=quote) if pairs else ""


def _sse(response: HTTPResponse) -> Iterator[Tuple[Optional[str], Any]]:
    event: Dict[str, str] = {}
    for raw in iter(lambda: response.readline(ANSWER_BYTES_MAX), b""):
        line = raw.decode("utf-8").rstrip("\r\n")
        if line != "":
            field, _, value = line.partition(":")
            if field:
                event[field] = value[1:] if value.startswith(" ") else value
            continue
        kind, data, cursor = event.get("event", "message"), event.get("data"), event.get("id")
        event = {}
        if data is None:
            yield cursor, None
        elif kind in ("slow", "stopping"):
            yield cursor, None
            return
        elif kind == "error":
            fault = json.loads(data)
            raise CountersignError(fault["code"], fault["message"], retryable=fault["code"] in ("INTERNAL", "UNAVAILABLE"))
        else:
            yield cursor, json.loads(data)
    raise network_error("the stream ended")
