"""An agent: a handler, and a loop that takes its runs, renews their leases, passes their messages and gives back what a stop leaves."""
import asyncio
import functools
import inspect
import signal
import sys
import threading
import time
import traceback
from typing import Any, Awaitable, Callable, Dict, List, Optional, Union

from .client import Client
from .errors import CountersignError, is_refusal
from .nouns import UNSET
from .run import Handler, Run, RunState, Slots, work
from .transport import Retry, backoff_of, new_key

RUNS_MAX = 50
ANSWER_S = 15
#: The pause after an empty answer that arrived too early: the server did not let the call wait.
AGAIN_S = 0.5
#: How long a handler can go on after the end of its run before the log names it.
OVERRUN_S = 30.0
LEAVE_S = 0.5

Log = Callable[[str], None]
OnError = Callable[[BaseException, Optional[Run]], None]
AsyncHandler = Callable[["AsyncRun"], Awaitable[Any]]


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _print_error(error: BaseException, run: Optional[Run]) -> None:
    if isinstance(error, CountersignError):
        _print("countersign: %s%s" % ("" if run is None else run.id + ": ", error))
    else:
        _print("".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip())


class Serving:
    """The loop of one agent in this process."""

    def __init__(
        self,
        agent: Union[str, Dict[str, Any]],
        handler: Handler,
        *,
        url: Optional[str] = None,
        key: Optional[str] = None,
        client: Optional[Client] = None,
        concurrency: int = 1,
        waiting_max: int = 100,
        lease: float = 60.0,
        wait: float = 50.0,
        grace: float = 10.0,
        on_error: OnError = _print_error,
        log: Log = _print,
    ) -> None:
        self.agent_id: str = agent if isinstance(agent, str) else agent["agent_id"]
        self._card = None if isinstance(agent, str) else agent
        self._client = client or Client(url, key)
        if client is None and "Authorization" not in self._client.transport._headers:
            raise ValueError("the agent's key is missing: set COUNTERSIGN_KEY, or give `key`")
        self._handler, self._on_error, self._log = handler, on_error, log
        self._lease, self._wait, self._grace, self._waiting_max = lease, wait, grace, waiting_max
        self._concurrency = concurrency
        self._worker = new_key()
        self._changed = threading.Condition()
        self._slots = Slots(concurrency, self._wake)
        self._jobs: Dict[str, RunState] = {}
        self._threads: Dict[str, threading.Thread] = {}
        self._named: set = set()
        self._stopping = threading.Event()
        self._over = threading.Event()
        self._failure: Optional[BaseException] = None

    # --- The way in and out --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serves until `stop`. Raises the error that makes it impossible, such as a refused key."""
        try:
            self._open()
            loops = [threading.Thread(target=self._poll, args=(held,), daemon=True) for held in (False, True)]
            loops.append(threading.Thread(target=self._beat, daemon=True))
            for loop in loops:
                loop.start()
            while not self._stopping.wait(0.2):
                pass
            self._leave()
        except CountersignError as error:
            self._failure = self._failure or error
        finally:
            self._over.set()
            self._wake()
            self._client.close()
        if self._failure is not None:
            self._log(self._ending(self._failure))
            raise self._failure

    def stop(self) -> None:
        """Takes nothing more. `run` then lets handlers finish for `grace` seconds and gives back the rest."""
        self._stopping.set()
        self._wake()

    def _open(self) -> None:
        me = self._persistently(lambda: self._client.me.get())
        if me is None:
            return
        if me["id"] != self.agent_id:
            raise CountersignError("UNAUTHORIZED", "this key is %s's, not %s's" % (me["id"], self.agent_id), status=403)
        if self._card is not None:
            self._persistently(lambda: self._client.send("delegation/agent.publish", self._card or {}))
        self._log("%s takes runs from %s" % (self.agent_id, self._client.transport.where))

    def _persistently(self, call: Callable[[], Any]) -> Any:
        """None: the loop was stopped before the server answered."""
        failures = 0
        while not self._stopping.is_set():
            try:
                answer = call()
                if failures:
                    self._log("%s is connected to %s again" % (self.agent_id, self._client.transport.where))
                return answer
            except CountersignError as error:
                if not error.retryable:
                    raise
                if failures == 0:
                    self._log("%s cannot connect to %s: %s; trying again" % (self.agent_id, self._client.transport.where, error.message))
                failures += 1
                self._stopping.wait(max(backoff_of(Retry(), failures), error.retry_after or 0))
        return None

    def _ending(self, error: BaseException) -> str:
        if is_refusal(error, "UNAUTHENTICATED"):
            return "%s refuses the key of %s: `countersign key issue %s` issues another" % (
                self._client.transport.where,
                self.agent_id,
                self.agent_id,
            )
        return "%s stopped: %s" % (self.agent_id, error)

    # --- Taking --------------------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _room(self) -> int:
        """How many more runs this process can take."""
        if self._stopping.is_set() or len(self._jobs) - (self._concurrency - self._slots.free) >= self._waiting_max:
            return 0
        return min(self._slots.free, RUNS_MAX)

    def _poll(self, held: bool) -> None:
        """One of two loops: for new runs while there is room, and for messages of held runs while there is not."""
        while not self._over.is_set():
            with self._changed:
                while not self._over.is_set() and not self._is_due(held):
                    self._changed.wait(5)
            if self._over.is_set():
                return
            began = time.monotonic()
            try:
                count = self._take(held)
            except CountersignError as error:
                if not is_refusal(error, "CONFLICT"):
                    self._fail(error)
                    return
                count = 0
            if count == 0 and time.monotonic() - began < min(AGAIN_S, self._wait / 2):
                self._over.wait(AGAIN_S)

    def _is_due(self, held: bool) -> bool:
        return self._room() == 0 and len(self._jobs) > 0 if held else self._room() > 0

    def _take(self, held: bool) -> int:
        body: Dict[str, Any] = {"agent_id": self.agent_id, "worker": self._worker, "lease": "PT%gS" % self._lease}
        # A stop is noticed within the time of one call.
        body["wait"] = "PT%gS" % min(self._wait, 5 if held else self._wait)
        body.update({"held": True} if held else {"limit": max(1, self._room())})
        # One key for all attempts: the answer of a lost response is given again.
        key = new_key()
        answer = self._persistently(lambda: self._client.send("delegation/mailbox.take", body, key, self._wait + ANSWER_S))
        items = [] if answer is None else answer["items"]
        for item in items:
            self._receive(item)
        return len(items)

    def _receive(self, item: Dict[str, Any]) -> None:
        run = item["run"]
        job = self._jobs.get(run["id"])
        if job is not None and (job.ending is not None or not job.receive(item)):
            job.end("stale")
            job = None
        if job is None and run["state"] in ("running", "blocked"):
            if self._stopping.is_set():
                self._release([{"run_id": run["id"], "attempt": item["attempt"]}])
            else:
                self._begin(item)
        cancel = next((one for one in reversed(item["messages"]) if one["kind"] == "cancel"), None)
        if cancel is not None:
            self._quietly("delegation/mailbox.ack", {"run_id": run["id"], "attempt": item["attempt"], "number": cancel["number"]})

    def _begin(self, item: Dict[str, Any]) -> None:
        state = RunState(self._client, item, self._slots)
        thread = threading.Thread(target=self._work, args=(state,), name=state.id, daemon=True)
        self._jobs[state.id], self._threads[state.id] = state, thread
        thread.start()
        # The handler's slot counts from now on.
        self._wake()

    def _work(self, state: RunState) -> None:
        try:
            work(state, self._handler, self._on_error)
        finally:
            if self._jobs.get(state.id) is state:
                del self._jobs[state.id]
            self._wake()

    # --- Holding -------------------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        while not self._over.wait(self._lease / 3):
            held = [state for state in list(self._jobs.values()) if state.ending is None and not state.is_delivered]
            for start in range(0, len(held), RUNS_MAX):
                self._extend(held[start : start + RUNS_MAX])
            self._name_overruns()

    def _extend(self, held: List[RunState]) -> None:
        runs = [{"run_id": state.id, "attempt": state.attempt} for state in held]
        body = {"runs": runs, "lease": "PT%gS" % self._lease}
        try:
            items = self._client.send("delegation/mailbox.extend", body, None, self._lease)["items"]
            for state, run, item in zip(held, runs, items):
                if item["lease_until"] is None and state.attempt == run["attempt"] and state.ending is None:
                    state.lost()
        except CountersignError:
            # The next beat tries again.
            pass

    def _name_overruns(self) -> None:
        """A hanging handler occupies its slot; the log says so once."""
        for state in list(self._jobs.values()):
            is_late = state.ended_at is not None and time.monotonic() - state.ended_at > OVERRUN_S
            if is_late and id(state) not in self._named:
                self._named.add(id(state))
                reason = state.ending.reason if state.ending else "done"
                self._log("%s: run %s is over (%s), but its handler has not returned; its slot stays occupied" % (self.agent_id, state.id, reason))

    def _leave(self) -> None:
        deadline = time.monotonic() + self._grace
        jobs = list(self._jobs.items())
        for run_id, _ in jobs:
            thread = self._threads.get(run_id)
            if thread is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
        unfinished = [state for _, state in jobs if state.ending is None and not state.is_delivered]
        for state in unfinished:
            state.end("stopping")
        until = time.monotonic() + LEAVE_S
        for state in unfinished:
            self._threads[state.id].join(max(0.0, until - time.monotonic()))
        self._release([{"run_id": state.id, "attempt": state.attempt} for state in unfinished])

    def _release(self, runs: List[Dict[str, Any]]) -> None:
        for start in range(0, len(runs), RUNS_MAX):
            self._quietly("delegation/mailbox.release", {"runs": runs[start : start + RUNS_MAX]})

    def _quietly(self, operation: str, body: Dict[str, Any]) -> None:
        """A server that does not answer must not delay a stop: the lease then expires."""
        try:
            self._client.transport.request("POST", operation, {"Content-Type": "application/json"}, _json_bytes(body), 5)
        except CountersignError:
            pass

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        for state in list(self._jobs.values()):
            state.end("stopping")
        self._stopping.set()
        self._wake()


def _json_bytes(body: Dict[str, Any]) -> bytes:
    import json

    return json.dumps(body).encode("utf-8")


def serve(agent: Union[str, Dict[str, Any]], handler: Handler, **options: Any) -> None:
    """Serves as an agent until the process is told to stop: every run is a call of `handler`, in a thread of its own.

    What the handler returns is the result of the run; what it raises fails the run. In the main thread SIGTERM and SIGINT stop it: handlers
    get `grace` seconds, and the next process takes the rest. See `Serving` for the options.
    """
    if inspect.iscoroutinefunction(handler):
        raise TypeError("the handler is a coroutine function: use `await serve_async(...)`")
    serving = Serving(agent, handler, **options)
    with _signals(serving.stop):
        serving.run()


async def serve_async(agent: Union[str, Dict[str, Any]], handler: AsyncHandler, **options: Any) -> None:
    """Serves with a coroutine function, whose runs share this event loop. Cancel the task to stop."""
    loop = asyncio.get_running_loop()

    def bridged(run: Run) -> Any:
        job = asyncio.run_coroutine_threadsafe(_awaited(handler, AsyncRun(run)), loop)
        while True:
            if run.ended.is_set() and not run._state.is_delivered:
                job.cancel()
            try:
                return job.result(0.25 if not job.done() else None)
            except TimeoutErrors:
                if job.done():
                    raise
            except asyncio.CancelledError:
                run._state.check()
                raise RuntimeError("the handler was cancelled") from None

    serving = Serving(agent, bridged, **options)
    ended = loop.run_in_executor(None, serving.run)
    try:
        await asyncio.shield(ended)
    except asyncio.CancelledError:
        serving.stop()
        await ended
        raise


async def _awaited(handler: AsyncHandler, run: "AsyncRun") -> Any:
    return await handler(run)


def _timeout_errors() -> tuple:
    from concurrent.futures import TimeoutError as FutureTimeout

    return (FutureTimeout, asyncio.TimeoutError)


TimeoutErrors = _timeout_errors()


class AsyncRun:
    """A run for a coroutine: its methods and its questions are awaited, everything else is as in `Run`."""

    _awaited_methods = frozenset(["progress", "memo", "commit", "open", "read_ledger", "write_ledger", "until_free"])

    def __init__(self, run: Run) -> None:
        self._run = run
        self.ask = _AsyncAsk(run)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._run, name)
        return _in_thread(value) if name in self._awaited_methods else value


class _AsyncAsk:
    def __init__(self, run: Run) -> None:
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return _in_thread(getattr(self._run.ask, name))


def _in_thread(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """A thread for each call: a question that waits for days must not take a place of a pool."""

    async def awaited(*args: Any, **options: Any) -> Any:
        loop = asyncio.get_running_loop()
        done: "asyncio.Future[Any]" = loop.create_future()

        def settle(value: Any, error: Optional[BaseException]) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(value)
            else:
                done.set_exception(error)

        def call() -> None:
            value, failure = None, None
            try:
                value = function(*args, **options)
            except BaseException as error:
                failure = error
            try:
                loop.call_soon_threadsafe(functools.partial(settle, value, failure))
            except RuntimeError:
                pass  # the event loop has ended, and nothing waits

        threading.Thread(target=call, daemon=True).start()
        return await done

    return awaited


class _signals:
    """SIGTERM and SIGINT stop the loop; a second signal has its usual effect."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._before: Dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _: Any) -> None:
        self._restore()
        self._stop()

    def _restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before = {}

    def __exit__(self, *_: object) -> None:
        self._restore()


__all__ = ("AsyncRun", "Serving", "serve", "serve_async", "UNSET")
