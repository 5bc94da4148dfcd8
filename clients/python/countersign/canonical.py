"""Canonical JSON (RFC 8785), and a decoder that refuses repeated keys."""
import hashlib
import json
import math
from base64 import urlsafe_b64encode
from typing import Any, Dict, List, Tuple


def canonical(value: Any) -> str:
    """The canonical text of a JSON value: keys in the order of their UTF-16 code units, numbers as ECMAScript writes them."""
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(canonical(item) for item in value) + "]"
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(_text(key) + ":" + canonical(value[key]) for key in keys) + "}"
    raise TypeError("%s is not a JSON value" % type(value).__name__)


def _text(value: str) -> str:
    value.encode("utf-8")  # a lone surrogate has no canonical form
    return json.dumps(value, ensure_ascii=False)


def _number(value: Any) -> str:
    number = float(value)
    if not math.isfinite(number) or (isinstance(value, int) and abs(value) > 2**53):
        raise ValueError("%r is no number of canonical JSON" % value)
    if number == int(number) and abs(number) <= 2**53:
        return str(int(number))
    digits, _, exponent = repr(number).partition("e")
    return _from_digits(digits, int(exponent or 0))


def _from_digits(digits: str, exponent: int) -> str:
    sign = "-" if digits.startswith("-") else ""
    whole, _, part = digits.lstrip("-").partition(".")
    part = part.rstrip("0")
    point = len(whole) + exponent
    figures = (whole + part).lstrip("0")
    point -= len(whole + part) - len(figures)
    figures = figures.rstrip("0")
    if 0 < point <= 21:
        body = figures.ljust(point, "0")
        rest = body[point:]
        return sign + body[:point] + ("." + rest if rest else "")
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + figures
    power = point - 1
    mantissa = figures[0] + ("." + figures[1:] if len(figures) > 1 else "")
    return "%s%se%s%d" % (sign, mantissa, "+" if power > 0 else "-", abs(power))


def _unique(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found: Dict[str, Any] = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is repeated")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError("%s is not JSON" % name)


def decode(text: str) -> Any:
    """Strict JSON: no repeated keys, no NaN."""
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)


def digest(text: str) -> str:
    """SHA-256 in base64url, as the server writes it."""
    return urlsafe_b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii").rstrip("=")
