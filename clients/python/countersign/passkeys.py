"""The signature of a person in a receipt: it has to be over this very answer, by one of their passkeys."""
from base64 import urlsafe_b64decode
from hashlib import sha256
from typing import Any, Dict, List, Optional, Tuple

from .canonical import canonical, decode, digest

Doubt = Tuple[str, str]
_WORDS = {"approve": "approved", "reject": "rejected", "approved": "approved", "rejected": "rejected", "changes_requested": ""}
_DATA_BYTES_MIN = 37
_PRESENT, _VERIFIED = 1, 4


def doubt_in(claims: Dict[str, Any], passkeys: Optional[List[Dict[str, Any]]]) -> Optional[Doubt]:
    """None: nothing is wrong with it, or no person has signed."""
    assertion = claims.get("assertion")
    if assertion is None:
        return None
    if assertion["subject_digest"] != claims["request_digest"]:
        return _wrong("it is about another request")
    if assertion["shown_digest"] != claims["shown_digest"]:
        return _wrong("it is about another card")
    if not _is_over_answer(claims, assertion):
        return _wrong("it is about another answer")
    names = ("operation", "subject_digest", "shown_digest", "result_digest", "nonce")
    signed = {**{name: assertion[name] for name in names}, "edited": claims.get("edited")}
    client = decode(_bytes(assertion["client_data_json"]).decode("utf-8"))
    if not isinstance(client, dict) or client.get("challenge") != digest(canonical(signed)):
        return _wrong("it signs something else")
    if passkeys is None:
        return None
    for key in passkeys:
        if key.get("credential_id") == assertion["credential_id"]:
            return _doubt_about_device(assertion, client, key)
    return ("unknown_passkey", "the person signed with a passkey that is not among those given")


def _wrong(message: str) -> Doubt:
    return ("wrong_assertion", "the signature of the person does not hold: %s" % message)


def _is_over_answer(claims: Dict[str, Any], assertion: Dict[str, Any]) -> bool:
    said, expected = assertion.get("said"), assertion["result_digest"]
    shown = claims["result"] if "result" in claims else claims.get("result_ref")
    if said is not None:
        word = _WORDS.get(said["word"])
        contradicts = word is not None and shown in ("approved", "rejected") and shown != word
        return not contradicts and digest(canonical({"digest": said["digest"], "word": said["word"]})) == expected
    if isinstance(shown, dict) and "commitment" in shown:
        # The server alone can compute the digest of a secret that it sealed.
        if shown.get("sealed_by") != "person":
            return True
        shown = {name: shown.get(name) for name in ("commitment", "sealed_by", "sealed_to")}
    return digest(canonical({"reason": claims.get("reason"), "result": shown})) == expected


def _doubt_about_device(assertion: Dict[str, Any], client: Dict[str, Any], key: Dict[str, Any]) -> Optional[Doubt]:
    data = _bytes(assertion["authenticator_data"])
    if client.get("type") != "webauthn.get":
        return _wrong("it is not an assertion")
    if client.get("crossOrigin") is True or "topOrigin" in client:
        return _wrong("it was made in a frame of another page")
    if len(data) < _DATA_BYTES_MIN or data[:32] != sha256(key["rp_id"].encode("utf-8")).digest():
        return _wrong("it was made for another site than %s" % key["rp_id"])
    if not data[32] & _PRESENT or not data[32] & _VERIFIED:
        return _wrong("the device has not verified the person")
    signed = data + sha256(_bytes(assertion["client_data_json"])).digest()
    good = _is_signed(key, signed, _bytes(assertion["signature"]))
    if good is None:
        return ("unsupported", "signatures cannot be checked here: install `countersign[verify]`")
    return None if good else _wrong("its signature is not one of the enrolled key")


def _is_signed(key: Dict[str, Any], signed: bytes, signature: bytes) -> Optional[bool]:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519
        from cryptography.hazmat.primitives.hashes import SHA256
    except ImportError:
        return None
    jwk = key["jwk"]
    x = _bytes(jwk["x"])
    try:
        if key["alg"] == -7:
            point = b"\x04" + x + _bytes(jwk["y"])
            ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point).verify(signature, signed, ec.ECDSA(SHA256()))
        else:
            ed25519.Ed25519PublicKey.from_public_bytes(x).verify(signature, signed)
    except (InvalidSignature, ValueError):
        return False
    return True


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
