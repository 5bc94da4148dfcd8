"""Asking people: a request is made once, its answer is awaited however long it takes, and its receipt is verified first."""
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence
from urllib.parse import quote

from .canonical import canonical, decode, digest
from .errors import DECLINED, CountersignError, Declined, NotAnswered, NotApproved, ReceiptDoubted, is_refusal, timeout_error
from .nouns import UNSET, given
from .receipts import Verdict, can_verify, verify_receipt
from .transport import Retry, Transport, backoff_of, new_key

#: The duration of one long poll; a server with a shorter limit responds earlier.
WAIT_S = 50
#: Beyond the wait itself.
ANSWER_S = 15
#: Pause between two polls of a server that does not let calls wait.
SOON_S = 0.5
KEY_CHARS_MAX = 200

Unseal = Callable[[str], str]
OnQuestion = Callable[[Dict[str, Any], Dict[str, Any]], str]


@dataclass(frozen=True)
class Answer:
    """The answer of a person. `edited` are the details as the person approved them; None means unchanged."""

    result: Any
    reason: Optional[str]
    edited: Optional[Dict[str, Any]]
    receipt: Dict[str, Any]
    request: Dict[str, Any]
    #: False: the receipt was not verified, because of `verify=False` or because Ed25519 is not installed.
    verified: bool


@dataclass(frozen=True)
class Wait:
    """How an answer is awaited; see `Hxp.outcome`."""

    timeout: Optional[float] = None
    verify: Optional[bool] = None
    keys: Any = None
    on_question: Optional[OnQuestion] = None
    unseal: Optional[Unseal] = None
    cancel_on_timeout: bool = False
    stop: Optional[threading.Event] = None


class Stopped(Exception):
    """The `stop` event was set while a call waited."""


_QUESTIONS = {
    "approve": ("APPROVE", "item", {"details": {}}),
    "decide": ("DECIDE", "question", {}),
    "provide": ("PROVIDE", "prompt", {"input_type": "text"}),
    "verify": ("VERIFY", "claim", {"evidence": []}),
}


def request_body(name: str, text: str, payload: Dict[str, Any], options: Dict[str, Any]) -> Dict[str, Any]:
    """The body of `execution/request.create`."""
    action, field, usual = _QUESTIONS[name]
    return {"action": action, "payload": {field: text, **usual, **given(payload)}, **given(options)}


class Hxp:
    """`client.hxp`: asks people, and waits for their answers over every failure of network and server.

    Every question takes `key`, which names it: a restarted program finds it instead of asking twice. `timeout` is how long to wait here,
    in seconds; how long the request itself waits is `timeout_seconds`. Other options are those of `execution/request.create`.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._keys: Any = None
        self._lock = threading.Lock()

    def approve(
        self,
        item: str,
        *,
        details: Any = UNSET,
        details_schema: Any = UNSET,
        reject_requires_reason: Any = UNSET,
        scope: Any = UNSET,
        context: Any = UNSET,
        **options: Any,
    ) -> Answer:
        """Asks for a yes. A no raises `NotApproved`."""
        payload = {
            "details": details,
            "details_schema": details_schema,
            "reject_requires_reason": reject_requires_reason,
            "scope": scope,
            "context": context,
        }
        return self.ask("approve", item, payload, options)

    def decide(self, question: str, choices: Sequence[str], *, default_option: Any = UNSET, context: Any = UNSET, **options: Any) -> Answer:
        """Asks for one of two to six options."""
        payload = {"options": list(choices), "default_option": default_option, "context": context}
        return self.ask("decide", question, payload, options)

    def provide(
        self,
        prompt: str,
        *,
        input_type: Any = UNSET,
        placeholder: Any = UNSET,
        validation: Any = UNSET,
        sensitive: Any = UNSET,
        context: Any = UNSET,
        **options: Any,
    ) -> Answer:
        """Asks for something that only a person has."""
        payload = {
            "input_type": input_type,
            "placeholder": placeholder,
            "validation": validation,
            "sensitive": sensitive,
            "context": context,
        }
        return self.ask("provide", prompt, payload, options)

    def verify(self, claim: str, *, evidence: Any = UNSET, context: Any = UNSET, **options: Any) -> Answer:
        """Puts a claim before a person: the result is `confirmed`, `refuted` or `cannot_tell`."""
        return self.ask("verify", claim, {"evidence": evidence, "context": context}, options)

    def ask(self, name: str, text: str, payload: Dict[str, Any], options: Dict[str, Any]) -> Answer:
        key = options.pop("key", None)
        once = options.pop("idempotency_key", None) or (new_key() if key is None else key_of(key))
        on_asked = options.pop("on_asked", None)
        wait = _wait_of(options)
        body = request_body(name, text, payload, options)
        deadline = None if wait.timeout is None else time.monotonic() + wait.timeout
        created = persistently(
            self._transport, lambda: self._transport.call("execution/request.create", body, once), wait, deadline, "QUOTA_EXCEEDED"
        )
        request = created["request"]
        if on_asked is not None:
            on_asked(request)
        answer = self.settle(request, created, wait, deadline)
        if name == "approve" and answer.result != "approved":
            raise NotApproved(answer.reason, answer)
        return answer

    def outcome(self, request_id: str, **options: Any) -> Answer:
        """Waits for the answer to a request that was made before."""
        wait = _wait_of(options)
        if options:
            raise TypeError("unknown options: %s" % ", ".join(sorted(options)))
        deadline = None if wait.timeout is None else time.monotonic() + wait.timeout
        found = persistently(self._transport, lambda: self._get(request_id), wait, deadline)
        return self.settle(found["request"], found, wait, deadline)

    def settle(self, asked: Dict[str, Any], found: Dict[str, Any], wait: Wait, deadline: Optional[float]) -> Answer:
        """The answer of an open or ended request."""
        try:
            ended = found if found.get("receipt") else self._end_of(asked["id"], wait, deadline)
        except NotAnswered:
            if not wait.cancel_on_timeout or found.get("receipt"):
                raise
            raise NotAnswered(self._withdraw(asked["id"]) or asked, None) from None
        return self._revealed(self._answer_in(asked, ended, wait), wait)

    # --- Waiting -----------------------------------------------------------------------------------------------------------

    def _get(self, request_id: str) -> Dict[str, Any]:
        return self._transport.call("execution/request.get", {"request_id": request_id}, None)

    def _end_of(self, request_id: str, wait: Wait, deadline: Optional[float]) -> Dict[str, Any]:
        seen = failures = 0
        notice = _Notice(self._transport.where)
        found: Dict[str, Any] = {"request": {"id": request_id}}
        # After a failure the first call does not wait: its answer shows that the server is back.
        is_away = False
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise NotAnswered(found["request"], None)
            _check_stop(wait)
            began = time.monotonic()
            seconds = 0 if is_away else WAIT_S if left is None else max(0, min(WAIT_S, int(left) + 1))
            if wait.stop is not None:
                seconds = min(seconds, 5)
            try:
                found = self._poll(request_id, seconds, seen, wait)
                notice.back()
            except CountersignError as error:
                if not error.retryable:
                    raise
                notice.away(error)
                is_away, failures = True, failures + 1
                _pause(max(backoff_of(Retry(), failures), error.retry_after or 0), wait, deadline)
                continue
            if found.get("receipt"):
                return found
            is_early = not is_away and seconds >= 1 and time.monotonic() - began < SOON_S
            is_away, failures = False, failures + 1 if is_early else 0
            thread = found["request"].get("thread") or []
            if wait.on_question is not None and len(thread) > seen:
                self._reply(found["request"], wait.on_question)
                seen, failures = len(thread), 0
            if failures:
                _pause(max(SOON_S, backoff_of(Retry(), failures)), wait, deadline)

    def _poll(self, request_id: str, seconds: int, seen: int, wait: Wait) -> Dict[str, Any]:
        body: Dict[str, Any] = {"request_id": request_id, "wait": seconds}
        if wait.on_question is not None:
            body["seen"] = seen
        try:
            return self._transport.call("execution/request.await", body, None, seconds + ANSWER_S)
        except CountersignError as error:
            # A caller that is not allowed to wait can still look.
            if error.code not in ("BUSY", "QUOTA_EXCEEDED"):
                raise
            return self._get(request_id)

    def _reply(self, request: Dict[str, Any], on_question: OnQuestion) -> None:
        thread = request.get("thread") or []
        questions = [one for one in thread if one["kind"] == "question"]
        for number, question in list(enumerate(questions))[len(thread) - len(questions) :]:
            body = {"request_id": request["id"], "text": on_question(question, request)}
            try:
                self._transport.call("execution/request.reply", body, "%s/reply/%d" % (request["id"], number))
            except CountersignError as error:
                if error.code not in ("PRECONDITION_FAILED", "ALREADY_RESOLVED", "EXPIRED"):
                    raise

    def _withdraw(self, request_id: str) -> Optional[Dict[str, Any]]:
        try:
            return self._transport.call("execution/request.cancel", {"request_id": request_id}, UNSET, 5)["request"]
        except CountersignError:
            return None

    # --- The receipt -------------------------------------------------------------------------------------------------------

    def _answer_in(self, asked: Dict[str, Any], ended: Dict[str, Any], wait: Wait) -> Answer:
        receipt, request = ended["receipt"], ended["request"]
        verified = False if wait.verify is False else self._verified(asked, receipt, wait)
        if receipt["status"] == "failed" and (receipt.get("reason") or "").startswith(DECLINED):
            raise Declined(request, receipt)
        if receipt["status"] != "completed":
            raise NotAnswered(request, receipt)
        return Answer(receipt.get("result"), receipt.get("reason"), receipt.get("edited"), receipt, request, verified)

    def _verified(self, asked: Dict[str, Any], receipt: Dict[str, Any], wait: Wait) -> bool:
        if not can_verify():
            if wait.verify:
                raise ReceiptDoubted(Verdict(False, "unsupported", "install `countersign[verify]` to check signatures"), receipt)
            _warn_once()
            return False
        verdict = verify_receipt(receipt, wait.keys or self._keyring(False), request=asked, audience=asked["agent_id"])
        if not verdict.ok and verdict.reason == "unknown_key" and wait.keys is None:
            verdict = verify_receipt(receipt, self._keyring(True), request=asked, audience=asked["agent_id"])
        if not verdict.ok:
            raise ReceiptDoubted(verdict, receipt)
        return True

    def _keyring(self, is_fresh: bool) -> Any:
        with self._lock:
            if is_fresh or self._keys is None:
                self._keys = self._transport.keys()
            return self._keys

    def _revealed(self, answer: Answer, wait: Wait) -> Answer:
        """The answer with the secret that its receipt only commits to. The server hands it over once."""
        payload, reference = answer.request.get("payload") or {}, answer.result
        if payload.get("sensitive") is not True or not isinstance(reference, dict) or not isinstance(reference.get("commitment"), str):
            return answer
        if reference.get("sealed_to") == "agent" and wait.unseal is None:
            return answer
        taken = self._transport.call("execution/secret.take", {"request_id": answer.request["id"]})
        if taken.get("sealed") is None and taken.get("value") is None:
            raise CountersignError("GONE", "the secret was handed over once, and did not arrive: ask again", status=410)
        opened = taken if taken.get("sealed") is None else decode(wait.unseal(taken["sealed"]))  # type: ignore[misc]
        value = opened["value"]
        shown = value if isinstance(value, str) else canonical(value)
        committed = taken["sealed"] if reference.get("sealed_by") == "person" else opened["salt"] + shown
        if digest(committed) != reference["commitment"]:
            raise ReceiptDoubted(Verdict(False, "changed", "the secret is not the one that was answered", ["result"]), answer.receipt)
        return Answer(value, answer.reason, answer.edited, answer.receipt, answer.request, answer.verified)


# --- Parts -----------------------------------------------------------------------------------------------------------------


def _wait_of(options: Dict[str, Any]) -> Wait:
    names: List[str] = ["timeout", "verify", "keys", "on_question", "unseal", "cancel_on_timeout", "stop"]
    return Wait(**{name: options.pop(name) for name in names if name in options})


def key_of(key: str) -> str:
    encoded = quote(key, safe="!'()*-._~")
    if key == "" or len(encoded) > KEY_CHARS_MAX:
        raise ValueError("a key has 1 to %d characters, counted as in an address" % KEY_CHARS_MAX)
    return "hxp/" + encoded


def persistently(transport: Transport, attempt: Callable[[], Any], wait: Wait, deadline: Optional[float], *hopeless: str) -> Any:
    """Repeats a call until it is answered or refused for good, however long the server is away."""
    notice, failures = _Notice(transport.where), 0
    while True:
        _check_stop(wait)
        try:
            answer = attempt()
            notice.back()
            return answer
        except CountersignError as error:
            if not error.retryable or is_refusal(error, *hopeless):
                raise
            notice.away(error)
            failures += 1
            if deadline is not None and time.monotonic() >= deadline:
                raise timeout_error(wait.timeout or 0) from error
            _pause(max(backoff_of(Retry(), failures), error.retry_after or 0), wait, deadline)


def _pause(seconds: float, wait: Wait, deadline: Optional[float]) -> None:
    if deadline is not None:
        seconds = max(0.0, min(seconds, deadline - time.monotonic()))
    if wait.stop is None:
        time.sleep(seconds)
    else:
        wait.stop.wait(seconds)


def _check_stop(wait: Wait) -> None:
    if wait.stop is not None and wait.stop.is_set():
        raise Stopped()


class _Notice:
    """One line on the standard error stream when the server becomes unreachable, and one when it is back."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._is_away = False

    def away(self, error: CountersignError) -> None:
        if not self._is_away:
            print("countersign: cannot reach %s: %s; trying again" % (self._where, error.message), file=sys.stderr)
        self._is_away = True

    def back(self) -> None:
        if self._is_away:
            print("countersign: connected to %s again" % self._where, file=sys.stderr)
        self._is_away = False


_warned = threading.Event()


def _warn_once() -> None:
    if not _warned.is_set():
        _warned.set()
        print("countersign: receipts are not verified: `pip install countersign[verify]` brings Ed25519", file=sys.stderr)
