"""The base of the generated classes: one object for each noun, which sends its operations."""
from typing import Any, Awaitable, Callable, Dict, Optional, Union


class _Unset:
    """The value of an argument that was not given. `None` is null on the wire."""

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET: Any = _Unset()

#: An idempotency key, None for a call without one, or UNSET for a new key.
KeyOption = Union[str, None, Any]

Call = Callable[[str, Dict[str, Any], KeyOption, Optional[float]], Any]
AsyncCall = Callable[[str, Dict[str, Any], KeyOption, Optional[float]], Awaitable[Any]]


class Noun:
    def __init__(self, call: Call) -> None:
        self._send = call

    def _call(self, operation: str, body: Dict[str, Any], key: KeyOption, timeout: Optional[float]) -> Any:
        return self._send(operation, given(body), key, timeout)


class AsyncNoun:
    def __init__(self, call: AsyncCall) -> None:
        self._send = call

    async def _call(self, operation: str, body: Dict[str, Any], key: KeyOption, timeout: Optional[float]) -> Any:
        return await self._send(operation, given(body), key, timeout)


def given(body: Dict[str, Any]) -> Dict[str, Any]:
    """The fields that the caller gave."""
    return {field: value for field, value in body.items() if value is not UNSET}


def _spread(body: Dict[str, Any], field: str, inner: Dict[str, Any]) -> Dict[str, Any]:
    """Puts the fields of an object in its place: `goal=...` for `spec={"goal": ...}`."""
    fields = given(inner)
    if body[field] is UNSET:
        return {**body, field: fields}
    if fields:
        raise TypeError("give `%s` or its fields (%s), not both" % (field, ", ".join(sorted(fields))))
    return body
