"""Verification of receipts, offline: a receipt, the server's public keys, and no network."""
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Callable, Dict, List, Optional, Union

from .canonical import canonical, decode, digest
from .passkeys import doubt_in

RECEIPT_CHARS_MAX = 512 * 1024
HEADER_CHARS_MAX = 1_024
_BASE64URL = re.compile(r"[A-Za-z0-9_-]*\Z")


@dataclass(frozen=True)
class Verdict:
    """Whether a receipt is genuine. If it is not, `reason` and `message` say why. `claims` is the signed content."""

    ok: bool
    reason: Optional[str] = None
    message: str = ""
    fields: List[str] = field(default_factory=list)
    claims: Optional[Dict[str, Any]] = None
    #: Fields that older signatures left out.
    unsigned: List[str] = field(default_factory=list)


def _doubt(reason: str, message: str, fields: Optional[List[str]] = None) -> Verdict:
    return Verdict(False, reason, message, fields or [])


def can_verify() -> bool:
    """Whether signatures can be checked here: `pip install countersign[verify]` brings Ed25519."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: F401
    except ImportError:
        return False
    return True


def verify_receipt(
    receipt: Union[str, Dict[str, Any]],
    jwks: Any,
    *,
    request: Optional[Dict[str, Any]] = None,
    audience: Optional[str] = None,
    issuer: Optional[str] = None,
    passkeys: Optional[List[Dict[str, Any]]] = None,
) -> Verdict:
    """Never raises for a bad receipt: every defect is a verdict with a reason.

    Pass the receipt as its JSON text to detect repeated fields. `request` is the request as it was created: its digest must be the
    signed one. `audience` is the agent that asked, `issuer` the server. `passkeys` are enrolments of people (`identity/passkey.added`):
    then the signature of a person must be by one of these. Without them its digests are checked alone.
    """
    try:
        return _verdict(receipt, jwks, request, audience, issuer, passkeys)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        return _doubt("not_a_receipt", "it cannot be read: %s" % error)


def _verdict(given: Any, jwks: Any, request: Any, audience: Optional[str], issuer: Optional[str], passkeys: Any) -> Verdict:
    value = decode(given) if isinstance(given, str) else given
    if not isinstance(value, dict):
        return _doubt("not_a_receipt", "it is not an object")
    receipt = value["receipt"] if isinstance(value.get("receipt"), dict) and "signature" not in value else value
    jws = receipt.get("signature")
    if not isinstance(jws, str) or len(jws) > RECEIPT_CHARS_MAX:
        return _doubt("not_a_receipt", "it has no signature of at most %d characters" % RECEIPT_CHARS_MAX)
    parts = jws.split(".")
    if len(parts) != 3 or len(parts[0]) > HEADER_CHARS_MAX:
        return _doubt("not_a_receipt", "the signature is not a compact JWS")
    header, signature = decode(_bytes(parts[0]).decode("utf-8")), _bytes(parts[2])
    if not isinstance(header, dict):
        return _doubt("not_a_receipt", "the signature has no header that can be read")
    # A signature must not choose how it is checked.
    if header.get("alg") != "EdDSA":
        return _doubt("wrong_algorithm", "the signature is not EdDSA")
    if not isinstance(header.get("kid"), str) or header.get("typ") != "receipt+jwt" or len(header) != 3:
        return _doubt("not_a_receipt", "the signature is not that of a receipt")
    key = _key(jwks, header["kid"])
    if key is None:
        return _doubt("unknown_key", "the given keys do not include its signing key")
    good = _check(key["x"], "%s.%s" % (parts[0], parts[1]), signature)
    if good is None:
        return _doubt("unsupported", "signatures cannot be checked here: install `countersign[verify]`")
    if not good:
        return _doubt("bad_signature", "the signature is not one of that key over this text")
    claims = decode(_bytes(parts[1]).decode("utf-8"))
    if not _is_claims(claims):
        return _doubt("not_a_receipt", "the signed text is not a receipt")
    if _is_after(key.get("countersign:until"), claims):
        return _doubt("retired_key", "its signing key was retired before the answer")
    verdict = _judge(receipt, claims, header["kid"], audience, issuer)
    if verdict.ok:
        verdict = _doubt_about_person(claims, passkeys) or verdict
    if not verdict.ok or request is None:
        return verdict
    if request_digest(request) != claims["request_digest"]:
        return _doubt("wrong_request", "it answers a request other than the given one")
    return verdict


def _doubt_about_person(claims: Dict[str, Any], passkeys: Any) -> Optional[Verdict]:
    found = doubt_in(claims, passkeys)
    return None if found is None else _doubt(found[0], found[1], ["assertion"])


def request_digest(request: Dict[str, Any]) -> str:
    """The digest of a request, as its agent received it."""
    asked = request["request"] if isinstance(request.get("request"), dict) else request
    expires_at = asked.get("expires_at")
    covered = {
        "action": asked.get("action"),
        "agent_id": asked.get("agent_id"),
        "created_at": asked.get("created_at"),
        "expires_at": asked.get("asked_until", expires_at),
        "payload": asked.get("payload"),
        "request_id": asked.get("request_id", asked.get("id")),
    }
    return digest(canonical(covered))


def _bytes(text: str) -> bytes:
    if not _BASE64URL.match(text):
        raise ValueError("the signature is not base64url")
    found = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if urlsafe_b64encode(found).decode("ascii").rstrip("=") != text:
        raise ValueError("the base64url is not canonical")
    return found


def _key(jwks: Any, kid: str) -> Optional[Dict[str, Any]]:
    keys = jwks.get("keys") if isinstance(jwks, dict) else None
    for key in keys if isinstance(keys, list) else []:
        if isinstance(key, dict) and key.get("kid") == kid:
            fits = key.get("kty") == "OKP" and key.get("crv") == "Ed25519" and isinstance(key.get("x"), str)
            return key if fits else None
    return None


def _check(x: str, signed: str, signature: bytes) -> Optional[bool]:
    if not can_verify():
        return None
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(_bytes(x)).verify(signature, signed.encode("ascii"))
    except InvalidSignature:
        return False
    return True


_TEXTS = ["iss", "aud", "jti", "request_id", "action", "request_digest", "status", "created_at", "completed_at", "evidence_hash"]
VERSIONS = (1, 2)


def _is_claims(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("v") not in VERSIONS or isinstance(value.get("v"), bool):
        return False
    parts = [value.get("decided_by"), value.get("basis"), value.get("log")]
    return (
        all(isinstance(value.get(name), str) for name in _TEXTS)
        and all(value.get(name) is None or isinstance(value.get(name), str) for name in ("shown_digest", "reason"))
        and all(isinstance(part, dict) for part in parts)
        and all(isinstance(part.get("kind"), str) for part in parts[:2])
        and isinstance(parts[2].get("seq"), int)
    )


_LEFT_OUT = ["duration_seconds"]
_NEEDED = ["request_id", "status", "completed_at", "evidence_hash", "receipt_id", "key_id", "result", "reason", "completed_by"]
_NAMED: Dict[str, Callable[[Dict[str, Any], str, str], Any]] = {
    "receipt_id": lambda claims, kid, jws: claims["jti"],
    "key_id": lambda claims, kid, jws: kid,
    "jws": lambda claims, kid, jws: jws,
    "result": lambda claims, kid, jws: claims["result"] if "result" in claims else claims.get("result_ref"),
    "completed_by": lambda claims, kid, jws: claims.get("completed_by") or claims["decided_by"].get("sub"),
}


def _judge(receipt: Dict[str, Any], claims: Dict[str, Any], kid: str, audience: Optional[str], issuer: Optional[str]) -> Verdict:
    if audience is not None and claims["aud"] != audience:
        return _doubt("wrong_audience", "it was made out to %s, not to %s" % (claims["aud"], audience))
    if issuer is not None and not _is_from(claims["iss"], issuer):
        return _doubt("wrong_issuer", "it is from %s, not from %s" % (claims["iss"], issuer))
    names = list(dict.fromkeys([*receipt, *_NEEDED, *(name for name in ("assertion", "assertion_digest") if name in claims)]))
    changed: List[str] = []
    unknown: List[str] = []
    unsigned: List[str] = []
    for name in names:
        if name == "signature":
            continue
        is_signed = name in _NAMED or name in claims or name in _NEEDED
        if is_signed and not _agrees(name, receipt, claims, kid):
            changed.append(name)
        if not is_signed:
            (unsigned if name in _LEFT_OUT else unknown).append(name)
    if changed:
        return _doubt("changed", "not what was signed: %s" % ", ".join(changed)[:200], changed)
    if unknown:
        return _doubt("not_signed", "not signed, and no part of a receipt: %s" % ", ".join(unknown)[:200], unknown)
    return Verdict(True, claims=claims, unsigned=unsigned)


def _is_from(iss: str, issuer: str) -> bool:
    origin, mark, installation = iss.rpartition("#")
    return issuer == iss or (mark != "" and issuer in (origin, installation))


def _agrees(name: str, receipt: Dict[str, Any], claims: Dict[str, Any], kid: str) -> bool:
    signed = _NAMED[name](claims, kid, receipt["signature"]) if name in _NAMED else claims.get(name)
    shown = receipt.get(name)
    if name == "completed_by" and claims["decided_by"]["kind"] == "system" and shown is None:
        return True
    return canonical(signed) == canonical(shown)


def _is_after(until: Any, claims: Dict[str, Any]) -> bool:
    if not isinstance(until, str):
        return False
    return _time(claims["completed_at"]) > _time(until) + timedelta(seconds=60)


def _time(text: str) -> datetime:
    # Python 3.9 and 3.10 read neither a Z nor fractions of other lengths than 3 and 6.
    parts = re.fullmatch(r"(.*T\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)", text)
    if parts is None:
        raise ValueError("%r is not a time" % text)
    base, fraction, zone = parts.groups()
    return datetime.fromisoformat("%s.%s%s" % (base, (fraction or "0")[:6].ljust(6, "0"), "+00:00" if zone == "Z" else zone))
