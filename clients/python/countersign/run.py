"""A run as a handler is given it. A handler that is started again after a crash gets the outcome of each finished step from the record."""
import os
import threading
import time
from base64 import b64encode
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union
from urllib.parse import quote, unquote_to_bytes

from .client import Client
from .errors import CountersignError, Ended, NotAnswered, NotApproved, is_refusal
from .hxp import Answer, Stopped, request_body
from .nouns import UNSET
from .transport import Retry, backoff_of, new_key

#: Larger contents go by upload. The server takes 128 KiB in a call.
INLINE_BYTES_MAX = 96 * 1024
KEY_CHARS_MAX = 150
#: The server might know of a change that this process has not received.
LOOK_S = 2.0
CONFLICTS_MAX = 10
ERROR_CHARS_MAX = 4_000


class RunState:
    """The state of one run in this process, shared by the mailbox loop and the handler's thread."""

    def __init__(self, client: Client, item: Dict[str, Any], slots: "Slots") -> None:
        self.client = client
        self.item = item
        self.id: str = item["run"]["id"]
        self.attempt: int = item["attempt"]
        self.slots = slots
        self.over = threading.Event()
        self.ending: Optional[Ended] = None
        self.is_paused: bool = item["run"]["state"] == "blocked"
        self.is_delivered = False
        self.is_fresh = False
        self.ended_at: Optional[float] = None
        context = item["request"].get("context") or {}
        self.steering: List[Dict[str, Any]] = [dict(one) for one in context.get("amendments") or []]
        self._handled = 0
        self._news = threading.Condition()
        self.receive(item)

    def receive(self, item: Dict[str, Any]) -> bool:
        """False: the messages are for an attempt that this process cannot continue."""
        if item["attempt"] < self.attempt:
            return True
        if item["attempt"] > self.attempt + 1:
            return False
        with self._news:
            self.attempt = item["attempt"]
            for message in item["messages"]:
                if message["number"] > self._handled:
                    self._handled = message["number"]
                    self._take(message)
            self._news.notify_all()
        return True

    def _take(self, message: Dict[str, Any]) -> None:
        kind, body = message["kind"], message.get("body") or {}
        if kind == "steer":
            self.steering.append({**body, "at": message["at"]})
        elif kind == "block":
            self.is_paused = True
        elif kind == "resume":
            self.is_paused = False
        elif kind == "cancel":
            self.end("handed_off" if body.get("reason") == "handed_off" else "cancelled", body.get("why"))

    def end(self, reason: str, message: Optional[str] = None) -> None:
        if self.ending is None:
            self.ending = Ended(reason, message)
            self.ended_at = time.monotonic()
            self.over.set()
            with self._news:
                self._news.notify_all()

    def check(self) -> None:
        if self.ending is not None:
            raise self.ending

    def until_free(self) -> None:
        with self._news:
            while self.is_paused and self.ending is None:
                self._news.wait(LOOK_S)
        self.check()

    def effect(self, call: Callable[[], Any]) -> Any:
        """One call on behalf of the run: it waits while the run is paused or the server is away, and ends with the run."""
        failures = conflicts = 0
        while True:
            self.until_free()
            try:
                return call()
            except CountersignError as error:
                self.check()
                if error.retryable:
                    failures += 1
                    self.over.wait(max(backoff_of(Retry(), failures), error.retry_after or 0))
                    continue
                conflicts += 1
                if conflicts > CONFLICTS_MAX or not self._is_passing(error):
                    self.check()
                    raise

    def _is_passing(self, error: CountersignError) -> bool:
        if error.code == "CONFLICT" and "reason" not in error.details:
            if not self.is_held():
                self.lost()
            return self.ending is None
        if error.code not in ("INVALID_TRANSITION", "PRECONDITION_FAILED"):
            return False
        run = self.look()
        was_blocked = run["state"] == "blocked"
        while run["state"] == "blocked" and self.ending is None:
            self.over.wait(LOOK_S)
            run = self.look()
        if run["state"] != "running":
            self.end_as(run)
        elif was_blocked:
            self.is_paused = False
        return was_blocked and run["state"] == "running"

    def look(self) -> Dict[str, Any]:
        return self.client.run.get(run_id=self.id)["run"]  # type: ignore[typeddict-item,return-value]

    def is_held(self) -> bool:
        body = {"runs": [{"run_id": self.id, "attempt": self.attempt}]}
        return self.client.send("delegation/mailbox.extend", body, None)["items"][0]["lease_until"] is not None

    def end_as(self, run: Dict[str, Any]) -> None:
        if run["state"] == "completed":
            self.end("done")
        else:
            self.end("handed_off" if run.get("reason") == "handed_off" else "cancelled", run.get("error"))

    def lost(self) -> None:
        """The server reports that this attempt does not hold the run."""
        before = self.attempt
        with self._news:
            self._news.wait(LOOK_S)
        if self.attempt != before or self.ending is not None:
            return
        run = self.look()
        if run["state"] == "completed":
            self.is_delivered = True
        elif run["state"] == "failed":
            self.end_as(run)
        else:
            self.end("stale")

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Waits without occupying a handler slot."""
        self.slots.give()
        try:
            yield
        finally:
            self.slots.take()


class Slots:
    """Handlers at work at the same time."""

    def __init__(self, count: int, on_free: Callable[[], None]) -> None:
        self._lock = threading.Condition()
        self._free = count
        self._on_free = on_free

    @property
    def free(self) -> int:
        return max(0, self._free)

    def take(self) -> None:
        with self._lock:
            while self._free <= 0:
                self._lock.wait()
            self._free -= 1

    def give(self) -> None:
        with self._lock:
            self._free += 1
            self._lock.notify()
        self._on_free()


class Steps:
    """Steps of a handler that happen once, however often it is started: each is known by its kind and its place, or by its key."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._places: Dict[str, int] = {}

    def name(self, kind: str, key: Optional[str]) -> str:
        if key is not None:
            if key == "" or len(quote(key, safe="")) > KEY_CHARS_MAX:
                raise ValueError("a key has 1 to %d characters, counted as in an address" % KEY_CHARS_MAX)
            return "%s:%s" % (kind, key)
        self._places[kind] = self._places.get(kind, 0) + 1
        return "%s#%d" % (kind, self._places[kind])

    def idempotent(self, name: str) -> str:
        return "%s/%s" % (self._state.id, quote(name, safe="!'()*-._~"))

    def once(self, kind: str, key: Optional[str], take: Callable[[str], Any]) -> Any:
        state, name = self._state, self.name(kind, key)
        is_first = state.is_fresh and state.attempt == 1
        if not is_first and not state.is_delivered:
            memo = state.effect(lambda: state.client.memo.get(run_id=state.id, key=name))
            if memo["found"]:
                return memo.get("value")
        outcome = take(self.idempotent(name))
        if state.is_delivered:
            return outcome
        put = state.effect(
            lambda: state.client.memo.put(run_id=state.id, key=name, value=outcome, attempt=state.attempt, idempotency_key=None)
        )
        return put.get("value")


class Ask:
    """Questions to the people of the task. They can wait for days; a restarted handler finds them again."""

    def __init__(self, state: RunState, steps: Steps) -> None:
        self._state = state
        self._steps = steps
        self._turn = threading.Lock()

    def approve(self, item: str, *, details: Any = UNSET, details_schema: Any = UNSET, context: Any = UNSET, **options: Any) -> Answer:
        """Asks for a yes. A no raises `NotApproved`; the task continues."""
        answer = self._ask("approve", item, {"details": details, "details_schema": details_schema, "context": context}, options)
        if answer.result != "approved":
            raise NotApproved(answer.reason, answer)
        return answer

    def decide(self, question: str, choices: Sequence[str], *, default_option: Any = UNSET, context: Any = UNSET, **options: Any) -> Answer:
        payload = {"options": list(choices), "default_option": default_option, "context": context}
        return self._ask("decide", question, payload, options)

    def provide(self, prompt: str, *, input_type: Any = UNSET, validation: Any = UNSET, sensitive: Any = UNSET, **options: Any) -> Answer:
        payload = {"input_type": input_type, "validation": validation, "sensitive": sensitive}
        return self._ask("provide", prompt, {**payload, "context": options.pop("context", UNSET)}, options)

    def verify(self, claim: str, *, evidence: Any = UNSET, context: Any = UNSET, **options: Any) -> Answer:
        return self._ask("verify", claim, {"evidence": evidence, "context": context}, options)

    def _ask(self, name: str, text: str, payload: Dict[str, Any], options: Dict[str, Any]) -> Answer:
        state = self._state
        task_id = state.item["run"].get("task_id")
        if task_id is None:
            raise TypeError("this run has no task, so it has no people to ask: use `run.client.hxp`")
        key = options.pop("key", None)
        waiting = {one: options.pop(one) for one in ("verify", "keys", "unseal", "on_question") if one in options}
        body = {**request_body(name, text, payload, options), "metadata": {"task_id": task_id}, "run_id": state.id}
        with self._turn, state.aside():
            again = 0
            while True:
                step = "ask" if again == 0 else "ask-again-%d" % again
                answer = self._once(step, key, body, waiting)
                if answer is not None:
                    return answer
                # A question of the system superseded this one without an answer.
                again += 1

    def _once(self, step: str, key: Optional[str], body: Dict[str, Any], waiting: Dict[str, Any]) -> Optional[Answer]:
        state = self._state

        def put(idempotency_key: str) -> Any:
            created = state.effect(
                lambda: state.client.send("execution/request.create", {**body, "attempt": state.attempt}, idempotency_key)
            )
            return {"request_id": created["request"]["id"], "checkpoint_id": created["request"].get("checkpoint_id")}

        made = self._steps.once(step, key, put)
        request_id, checkpoint_id = made["request_id"], made.get("checkpoint_id")
        while True:
            try:
                return state.client.hxp.outcome(request_id, stop=state.over, **waiting)
            except Stopped:
                state.check()
                raise
            except NotAnswered:
                successor = self._after(checkpoint_id) if checkpoint_id is not None else None
                if successor is None:
                    state.check()
                    raise
                if successor == "":
                    state.until_free()
                    return None
                checkpoint_id = successor
                request_id = "hxp_" + successor[len("ckpt_") :]

    def _after(self, checkpoint_id: str) -> Optional[str]:
        """The checkpoint that asks the next person; "" if the question was superseded; None if it has ended without an answer."""
        state = self._state
        checkpoint: Any = state.client.checkpoint.get(checkpoint_id=checkpoint_id)["checkpoint"]
        if checkpoint.get("reason") == "superseded":
            return ""
        if checkpoint["state"] != "expired":
            return None
        task: Any = state.client.task.get(task_id=checkpoint["task_id"])["task"]
        after = task["checkpoints"][task["checkpoints"].index(checkpoint_id) + 1 :]
        for later in reversed(after):
            found: Any = state.client.checkpoint.get(checkpoint_id=later)["checkpoint"]
            if found.get("succeeds") == checkpoint_id:
                is_question = found.get("raised_by") != "agent_system" or "escalates" in found
                return later if is_question else "" if checkpoint.get("reason") != "declined" else None
        return None


class Run:
    """What a handler can do about its run."""

    def __init__(self, state: RunState, task: Optional[Dict[str, Any]]) -> None:
        self._state = state
        self._steps = Steps(state)
        self.id = state.id
        #: The work to be done: the spec of the task, or the input of the delegating agent.
        self.input: Dict[str, Any] = state.item["request"].get("input") or {}
        self.context: Optional[Dict[str, Any]] = state.item["request"].get("context")
        self.task = task
        self.document: Dict[str, Any] = state.item["run"]
        self.ask = Ask(state, self._steps)
        #: Every operation of the server, as this agent.
        self.client = state.client

    @property
    def attempt(self) -> int:
        return self._state.attempt

    @property
    def ended(self) -> threading.Event:
        """Set when the run is over in this process. A handler that computes for long should look at it."""
        return self._state.over

    @property
    def is_paused(self) -> bool:
        return self._state.is_paused

    @property
    def steering(self) -> List[Dict[str, Any]]:
        """Messages of people and of the delegating agent since the run began."""
        return list(self._state.steering)

    def until_free(self) -> None:
        """Waits while a person has interrupted the run. Raises `Ended` when it is over."""
        self._state.until_free()

    def progress(self, message: str, percent: Optional[float] = None) -> None:
        state, key = self._state, new_key()
        body: Dict[str, Any] = {"run_id": self.id, "message": message}
        if percent is not None:
            body["percent"] = percent
        state.effect(
            lambda: state.client.send("delegation/run.progress", {**body, "attempt": state.attempt}, "%s/%d" % (key, state.attempt))
        )

    def memo(self, key: str, make: Callable[[], Any]) -> Any:
        """The value under a key or, the first time, what `make` returns: small, and JSON."""
        return self._steps.once("memo", key, lambda _: make())

    def commit(
        self,
        content: Union[str, bytes, Dict[str, Any]],
        *,
        final: bool = True,
        name: Optional[str] = None,
        media_type: Optional[str] = None,
        key: Optional[str] = None,
        **options: Any,
    ) -> Dict[str, Any]:
        """Delivers an artifact. With `final=False` the work continues; otherwise the task goes to its reviewers."""
        state = self._state
        task_id = state.item["run"].get("task_id")
        if task_id is None:
            raise TypeError("this run has no task: return the result instead")
        if not final:
            options["final"] = False

        def deliver(idempotency_key: str) -> Dict[str, Any]:
            body = {**options, "task_id": task_id, "run_id": self.id, "payload": self._payload(task_id, content, name, media_type)}
            committed = state.effect(
                lambda: state.client.send("collaboration/artifact.commit", {**body, "attempt": state.attempt}, idempotency_key)
            )
            return {"artifact_id": committed["artifact"]["id"], "version": committed["artifact"]["version"]}

        if not final:
            return self._steps.once("commit", key, deliver)
        delivered = deliver(self._steps.idempotent(self._steps.name("deliver", key)))
        # The run has ended with the delivery.
        state.is_delivered = True
        return delivered

    def _payload(self, task_id: str, content: Any, name: Optional[str], media_type: Optional[str]) -> Dict[str, Any]:
        if isinstance(content, dict):
            return content
        usual = "text/plain;charset=utf-8" if isinstance(content, str) else "application/octet-stream"
        data = content.encode("utf-8") if isinstance(content, str) else bytes(content)
        kind = media_type or usual
        if len(data) <= INLINE_BYTES_MAX and name is None:
            return {"kind": "inline", "uri": "data:%s;base64,%s" % (kind, b64encode(data).decode("ascii"))}
        about = {"task_id": task_id, "media_type": kind, **({} if name is None else {"name": name})}
        sent = self._state.effect(lambda: self.client.put_bytes("collaboration/artifact.upload", data, **about))
        return {"kind": "blob", "uri": sent["uri"], "checksum": sent["checksum"], "size": sent["size"]}

    def open(self, artifact_id: str, version: Optional[str] = None) -> bytes:
        """The bytes of an artifact that this agent can read."""
        which = {"artifact_id": artifact_id, **({} if version is None else {"version": version})}
        uri: str = self.client.send("collaboration/artifact.download", which)["uri"]
        if not uri.startswith("data:"):
            return self.client.get_bytes("collaboration/artifact.download", **which)[0]
        head, _, body = uri.partition(",")
        data = unquote_to_bytes(body)
        if not head.endswith(";base64"):
            return data
        from base64 import b64decode

        return b64decode(data, validate=True)

    def read_ledger(self, key: str, scope: Optional[str] = None) -> Any:
        """The value under a key of the project's ledger; None if it has none."""
        where = scope or "project:%s" % self.document["project_id"]
        try:
            return self._state.effect(lambda: self.client.send("collaboration/ledger.read", {"scope": where, "key": key}))["entry"]["value"]
        except CountersignError as error:
            if is_refusal(error, "NOT_FOUND"):
                return None
            raise

    def write_ledger(self, key: str, value: Any, *, step: Optional[str] = None, **options: Any) -> None:
        state, task_id = self._state, self.document.get("task_id")
        if task_id is None:
            raise TypeError("this run has no task: only a run of a task can write the ledger")

        def write(idempotency_key: str) -> None:
            entry = {**options, "task_id": task_id, "run_id": self.id, "key": key, "value": value}
            state.effect(lambda: state.client.send("collaboration/ledger.write", {**entry, "attempt": state.attempt}, idempotency_key))

        self._steps.once("ledger", step, write)


Handler = Callable[[Run], Any]


def work(state: RunState, handler: Handler, on_error: Callable[[BaseException, Optional[Run]], None]) -> None:
    """One call of the handler: the run is started, worked on, and its end is reported. Never raises."""
    pid = os.getpid()
    run: Optional[Run] = None
    state.slots.take()
    try:
        _start(state)
        run = Run(state, _task_of(state))
        returned = handler(run)
        _refuse_fork(pid)
        if not state.is_delivered:
            _complete(state, returned)
    except Exception as error:
        _refuse_fork(pid)
        if state.ending is None and not isinstance(error, Ended):
            on_error(error, run)
            _report(state, error, on_error, run)
    finally:
        state.end("done")
        state.slots.give()


def _refuse_fork(pid: int) -> None:
    """The child of a fork must not report the run of its parent."""
    if os.getpid() != pid:
        os.write(2, b"countersign: a handler returned in the child of a fork; the child ends. End it with os._exit in the handler.\n")
        os._exit(70)


def _start(state: RunState) -> None:
    state.until_free()
    if state.item["run"].get("started_at") is not None:
        return _confirm(state)
    try:
        state.effect(lambda: state.client.run.start(run_id=state.id, attempt=state.attempt, idempotency_key=None))
        state.is_fresh = True
    except CountersignError as error:
        if not is_refusal(error, "INVALID_TRANSITION"):
            raise
        _confirm(state)


def _confirm(state: RunState) -> None:
    if not state.effect(state.is_held):
        state.end("stale")
    state.check()


def _task_of(state: RunState) -> Optional[Dict[str, Any]]:
    task_id = state.item["run"].get("task_id")
    return None if task_id is None else state.effect(lambda: state.client.task.get(task_id=task_id))["task"]


def _result_of(returned: Any) -> Dict[str, Any]:
    if returned is None:
        return {}
    return {"result": returned if isinstance(returned, dict) else {"value": returned}}


def _complete(state: RunState, returned: Any) -> None:
    body = {"run_id": state.id, **_result_of(returned)}
    state.effect(lambda: state.client.send("delegation/run.complete", {**body, "attempt": state.attempt}, _key(state, "complete")))


def _report(state: RunState, error: BaseException, on_error: Callable[[BaseException, Optional[Run]], None], run: Optional[Run]) -> None:
    if state.is_delivered:
        return
    message = (str(error) or type(error).__name__)[:ERROR_CHARS_MAX]
    body = {"run_id": state.id, "error": message}
    try:
        state.effect(lambda: state.client.send("delegation/run.fail", {**body, "attempt": state.attempt}, _key(state, "fail")))
    except Exception as lost:
        if state.ending is None:
            on_error(lost, run)


def _key(state: RunState, what: str) -> str:
    return "%s/%s/%d" % (state.id, what, state.attempt)


Receipt = Dict[str, Any]
__all__: Tuple[str, ...] = ("Ask", "Handler", "Run", "RunState", "Slots", "work")
