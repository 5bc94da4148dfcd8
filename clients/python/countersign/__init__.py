"""Countersign for Python: operations, questions to people, and agents. No dependencies; `countersign[verify]` checks receipts offline."""
from .agent import AsyncRun, Serving, serve, serve_async
from .client import AsyncClient, Client
from .errors import CountersignError, Declined, Ended, NotAnswered, NotApproved, ReceiptDoubted
from .hxp import Answer
from .receipts import Verdict, verify_receipt
from .run import Run
from .transport import Retry

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "AsyncClient",
    "AsyncRun",
    "Client",
    "CountersignError",
    "Declined",
    "Ended",
    "NotAnswered",
    "NotApproved",
    "ReceiptDoubted",
    "Retry",
    "Run",
    "Serving",
    "Verdict",
    "serve",
    "serve_async",
    "verify_receipt",
]
