"""Errors of the client."""
from typing import Any, Dict, Optional


class CountersignError(Exception):
    """A refused or failed call. `code` is the server's code, or NETWORK, TIMEOUT, INVALID_ANSWER or CLOSED."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: Optional[int] = None,
        details: Optional[Dict[str, Any]] = None,
        retryable: bool = False,
        retry_after: Optional[float] = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        #: The HTTP status. None means that no response arrived.
        self.status = status
        self.details = details or {}
        #: The same call can succeed later, unchanged.
        self.retryable = retryable
        #: The number of seconds that the server asks to wait.
        self.retry_after = retry_after

    def __str__(self) -> str:
        return "%s: %s" % (self.code, self.message)


def network_error(message: str) -> CountersignError:
    return CountersignError("NETWORK", message, retryable=True)


def timeout_error(seconds: float) -> CountersignError:
    return CountersignError("TIMEOUT", "no answer within %g s" % seconds, retryable=True)


def closed_error() -> CountersignError:
    return CountersignError("CLOSED", "the client was closed")


def is_refusal(error: BaseException, *codes: str) -> bool:
    return isinstance(error, CountersignError) and error.code in codes


class NotAnswered(Exception):
    """No answer: the request expired (`failed`), was withdrawn (`cancelled`), or is still open after `timeout` (`pending`)."""

    def __init__(self, request: Dict[str, Any], receipt: Optional[Dict[str, Any]]) -> None:
        ending = receipt["status"] if receipt else ("cancelled" if request.get("status") == "cancelled" else "pending")
        self.status = ending if ending in ("cancelled", "pending") else "failed"
        self.reason = receipt.get("reason") if receipt else None
        self.request = request
        self.receipt = receipt
        why = "" if self.reason is None else " (%s)" % self.reason
        super().__init__("no answer to %s: it is %s%s" % (request["id"], self.status, why))


DECLINED = "declined: "


class Declined(NotAnswered):
    """A person declined to answer. `said` is their own text."""

    def __init__(self, request: Dict[str, Any], receipt: Dict[str, Any]) -> None:
        super().__init__(request, receipt)
        self.said = receipt["reason"][len(DECLINED) :]
        self.args = ("%s was declined: %s" % (request["id"], self.said),)


class NotApproved(Exception):
    """A person rejected the request: the action must not happen."""

    def __init__(self, reason: Optional[str], answer: Any) -> None:
        super().__init__(reason or "rejected")
        self.reason = reason
        #: The answer with its receipt.
        self.answer = answer


class ReceiptDoubted(Exception):
    """A receipt that does not verify: never act on it."""

    def __init__(self, verdict: Any, receipt: Dict[str, Any]) -> None:
        super().__init__("the receipt of %s cannot be trusted: %s" % (receipt.get("request_id"), verdict.message))
        self.verdict = verdict
        self.receipt = receipt


class Ended(Exception):
    """The run is over in this process: cancelled, handed_off, stale, stopping or done."""

    def __init__(self, reason: str, message: Optional[str] = None) -> None:
        super().__init__(message or "the run is over here: %s" % reason)
        self.reason = reason
