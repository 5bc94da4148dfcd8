"""A second verifier of bundles, which shares no code with ours: docs/proof.md in Python. Exit 0 genuine, 1 not, 2 unusable."""

import base64
import hashlib
import json
import re
import struct
import sys

# --- Ed25519 (RFC 8032), for machines without a package for it ---------------------------------------------------------------
P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
I = pow(2, (P - 1) // 4, P)


def x_of(y, sign):
    if y >= P:
        return None
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    if x2 == 0:
        return None if sign else 0
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P != 0:
        x = x * I % P
    if (x * x - x2) % P != 0:
        return None
    return P - x if (x & 1) != sign else x


def add(a, b):
    x1, y1, z1, t1 = a
    x2, y2, z2, t2 = b
    e = (y1 - x1) * (y2 - x2) % P
    f = (y1 + x1) * (y2 + x2) % P
    g = 2 * t1 * t2 * D % P
    h = 2 * z1 * z2 % P
    i, j, k, m = f - e, h - g, h + g, f + e
    return (i * j % P, k * m % P, j * k % P, i * m % P)


def times(n, point):
    result = (0, 1, 1, 0)
    while n > 0:
        if n & 1:
            result = add(result, point)
        point = add(point, point)
        n >>= 1
    return result


def point_in(data):
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    x = x_of(y, sign)
    return None if x is None else (x, y, 1, x * y % P)


BY = 4 * pow(5, P - 2, P) % P
BASE = (x_of(BY, 0), BY, 1, x_of(BY, 0) * BY % P)


def is_signed(key, message, signature):
    if len(key) != 32 or len(signature) != 64:
        return False
    a, r = point_in(key), point_in(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= L:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % L
    left, right = times(s, BASE), add(r, times(h, a))
    return (left[0] * right[2] - right[0] * left[2]) % P == 0 and (left[1] * right[2] - right[1] * left[2]) % P == 0


# --- Notes and policies ------------------------------------------------------------------------------------------------------
class Broken(Exception):
    def __init__(self, line, what):
        super().__init__(what)
        self.line = line


class Unusable(Exception):
    pass


def sha(data):
    return hashlib.sha256(data).digest()


def exact64(text, url=False):
    try:
        data = base64.b64decode(text, validate=True) if not url else base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except Exception:
        return None
    again = base64.b64encode(data).decode() if not url else base64.urlsafe_b64encode(data).decode().rstrip("=")
    return data if again == text else None


def url64(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def key_in(text):
    name, key_id, encoded = text.split("+", 2)
    data = exact64(encoded)
    if data is None or len(data) != 33 or sha(name.encode() + b"\n" + data)[:4].hex() != key_id:
        raise Unusable("a key of the policy cannot be used: " + name)
    return {"name": name, "id": bytes.fromhex(key_id), "type": data[0], "key": data[1:]}


def read_policy(text):
    logs, witnesses, groups, quorum = [], {}, {}, None
    for line in text.split("\n"):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] == "log":
            logs.append(key_in(words[1]))
        elif words[0] == "witness":
            witnesses[words[1]] = key_in(words[2])
        elif words[0] == "group":
            count = len(words) - 3
            groups[words[1]] = (count if words[2] == "all" else 1 if words[2] == "any" else int(words[2]), words[3:])
        elif words[0] == "quorum":
            quorum = words[1]
        else:
            raise Unusable("the policy has an unknown line")
    if quorum is None or not logs:
        raise Unusable("the policy names no quorum or no log")

    def met(name, seen):
        if name == "none":
            return True
        if name in witnesses:
            return name in seen
        least, members = groups[name]
        return sum(met(member, seen) for member in members) >= least

    return logs, witnesses, lambda seen: met(quorum, seen)


def checkpoint_in(note, origin, policy, at):
    logs, witnesses, met = policy
    cut = note.rfind("\n\n")
    if cut < 1 or not note.endswith("\n") or any(c < " " and c != "\n" for c in note):
        raise Broken(at, "the checkpoint is not a signed note")
    text, lines = note[: cut + 1], note[cut + 2 : -1].split("\n")
    parts = text[:-1].split("\n")
    if len(parts) != 3 or parts[0] != origin or not re.fullmatch(r"0|[1-9]\d{0,15}", parts[1]):
        raise Broken(at, "the checkpoint is not one of the log")
    root = exact64(parts[2])
    if root is None or len(root) != 32 or len(lines) > 64:
        raise Broken(at, "the checkpoint cannot be read")
    by_log, seen = False, {}
    for line in lines:
        found = re.fullmatch("\u2014 (\\S+) (\\S+)", line)
        data = exact64(found.group(2)) if found else None
        if data is None or len(data) < 5:
            raise Broken(at, "a signature line cannot be read")
        for key in logs:
            if (key["name"], key["id"]) == (found.group(1), data[:4]) and key["name"] == origin:
                if not is_signed(key["key"], text.encode(), data[4:]):
                    raise Broken(at, "the signature of the log does not hold")
                by_log = True
        for name, key in witnesses.items():
            if (key["name"], key["id"]) == (found.group(1), data[:4]):
                time = struct.unpack(">Q", data[4:12])[0] if len(data) == 76 else 0
                if len(data) != 76 or not is_signed(key["key"], f"cosignature/v1\ntime {time}\n{text}".encode(), data[12:]):
                    raise Broken(at, "a cosignature does not hold")
                seen[name] = time
    if not by_log or not met(seen):
        raise Broken(at, "the log did not sign it, or too few witnesses have seen it")
    return int(parts[1]), root, seen


# --- Bundles -----------------------------------------------------------------------------------------------------------------
def root_of(entry, index, size, proof):
    fn, sn, r = index, size - 1, sha(b"\0" + entry)
    for p in proof:
        if sn == 0:
            return None
        if fn % 2 == 1 or fn == sn:
            r = sha(b"\1" + p + r)
            while fn % 2 == 0 and fn != 0:
                fn, sn = fn >> 1, sn >> 1
        else:
            r = sha(b"\1" + r + p)
        fn, sn = fn >> 1, sn >> 1
    return r if sn == 0 else None


def plain(value):
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def parsed(text, at):
    def once(pairs):
        if len({key for key, _ in pairs}) != len(pairs):
            raise Broken(at, "a key is there twice")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=once)
    except ValueError:
        raise Broken(at, "it is not JSON")


LINE = "action,actor,at,basis,behalf,cause,detail,id,images,prev,root,scope,seq,subject,task,v"


def verify(data, policy):
    if not data.endswith(b"\n"):
        raise Broken(None, "the end is missing")
    rows = data[:-1].split(b"\n")
    lines = []
    for at, row in enumerate(rows, 1):
        try:
            lines.append(parsed(row.decode("utf-8"), at))
        except UnicodeDecodeError:
            raise Broken(at, "it is not UTF-8")
    first, last, end = lines[0], lines[-1], len(rows)
    if ",".join(sorted(first)) != "about,complete,countersign,made_at,origin" or first["countersign"] != "bundle/1":
        raise Broken(1, "it is not a bundle")
    if ",".join(sorted(last)) != "checkpoint,lines,sha256":
        raise Broken(end, "it is not the last line")
    size, root, seen = checkpoint_in(last["checkpoint"], first["origin"], policy, end)
    facts, keys, receipts, before = [], {}, [], -1
    for at, line in enumerate(lines[1:-1], 2):
        if "receipt" in line and set(line) <= {"receipt", "request"}:
            receipts.append((at, line))
            continue
        if set(line) != {"fact"} or not set(line["fact"]) <= {"images", "index", "line", "proof"} or receipts:
            raise Broken(at, "it is neither a fact nor a receipt")
        fact = line["fact"]
        sealed, index = parsed(fact["line"], at), fact["index"]
        if ",".join(sorted(sealed)) != LINE or sealed["v"] != 1 or not before < index < size:
            raise Broken(at, "it is not a fact at its place")
        before, entry = index, sha(fact["line"].encode())
        if "proof" in fact:
            proof = [exact64(text) for text in fact["proof"]]
            if None in proof or root_of(entry, index, size, proof) != root:
                raise Broken(at, "its proof does not lead to the checkpoint")
        if len(fact["images"]) != len(sealed["images"]):
            raise Broken(at, "an image is missing or was added")
        for image, of in zip(fact["images"], sealed["images"]):
            if (image["key"], image["version"]) != (of["key"], of["version"]) or set(image) != {"key", "salt", "text", "version"}:
                raise Broken(at, "an image was exchanged")
            if url64(sha((image["salt"] + image["text"]).encode())) != of["digest"]:
                raise Broken(at, "an image was changed")
        if sealed["scope"] == "system" and sealed["action"] == "identity/receipt_key.published":
            detail = sealed["detail"]
            if url64(sha(plain({"crv": "Ed25519", "kty": "OKP", "x": detail["x"]}).encode())) != detail["kid"]:
                raise Broken(at, "the key does not have its name")
            keys[detail["kid"]] = exact64(detail["x"], url=True)
        facts.append({"at": at, "index": index, "sealed": sealed, "hash": url64(entry), "proven": "proof" in fact})
    following = {}
    for fact in reversed(facts):
        sealed = fact["sealed"]
        after = following.get(sealed["scope"])
        if after is not None:
            gap = after["sealed"]["seq"] - sealed["seq"]
            if gap < 1 or after["index"] - fact["index"] < gap or sealed["at"] > after["sealed"]["at"]:
                raise Broken(after["at"], "it is not behind the number before it")
            if gap == 1:
                if after["sealed"]["prev"] != fact["hash"]:
                    raise Broken(after["at"], "it does not follow the number before it")
                fact["proven"] = fact["proven"] or after["proven"]
            elif first["complete"] and sealed["scope"] == first["about"]["id"]:
                raise Broken(after["at"], "numbers before it are missing")
        if not fact["proven"]:
            raise Broken(fact["at"], "nothing proves it")
        if (sealed["seq"] == 1) != (sealed["prev"] == ""):
            raise Broken(fact["at"], "only number 1 follows nothing")
        following[sealed["scope"]] = fact
    own = following.get(first["about"]["id"])
    if first["complete"] and (own is None or own["sealed"]["seq"] != 1):
        raise Broken(1 if own is None else own["at"], "it is not complete")
    by_number = {(fact["sealed"]["scope"], fact["sealed"]["seq"]): fact for fact in facts}
    for at, line in receipts:
        verify_receipt(line, at, keys, by_number)
    digest = hashlib.sha256(b"".join(row + b"\n" for row in rows[:-1])).hexdigest()
    if last["lines"] != end - 1 or last["sha256"] != digest:
        raise Broken(end, "lines are missing, added or changed")
    return f"genuine: {len(facts)} facts, {len(receipts)} receipts, {len(seen)} witnesses"


def verify_receipt(line, at, keys, by_number):
    receipt = line["receipt"]
    parts = receipt["signature"].split(".")
    data = [exact64(part, url=True) for part in parts]
    if len(parts) != 3 or None in data:
        raise Broken(at, "the signature of the receipt is no JWS")
    header, claims = json.loads(data[0]), json.loads(data[1])
    key = keys.get(header.get("kid"))
    if header.get("alg") != "EdDSA" or header.get("typ") != "receipt+jwt" or key is None:
        raise Broken(at, "the receipt is not signed by a published key")
    if not is_signed(key, f"{parts[0]}.{parts[1]}".encode(), data[2]):
        raise Broken(at, "the signature of the receipt does not hold")
    names = {"receipt_id": claims["jti"], "key_id": header["kid"], "signature": receipt["signature"]}
    names["result"] = claims.get("result", claims.get("result_ref"))
    names["completed_by"] = claims.get("completed_by", claims["decided_by"]["sub"])
    for field, value in receipt.items():
        if names.get(field, claims.get(field)) != value:
            raise Broken(at, f"{field} is not what was signed")
    if "request" in line and url64(sha(plain(line["request"]).encode())) != claims["request_digest"]:
        raise Broken(at, "it answers another request")
    fact = by_number.get((claims["log"]["project_id"], claims["log"]["seq"]))
    if fact is None or fact["hash"] != claims["log"]["hash"] or fact["sealed"]["subject"] != "execution.request/" + claims["request_id"]:
        raise Broken(at, "the fact that it names is not in the bundle")


def main(bundle, policy):
    try:
        with open(policy, encoding="utf-8") as file:
            trusted = read_policy(file.read())
        with open(bundle, "rb") as file:
            data = file.read()
    except (OSError, ValueError, Unusable) as error:
        print(error)
        return 2
    try:
        print(verify(data, trusted))
        return 0
    except Broken as error:
        print("not genuine:", "" if error.line is None else f"line {error.line}:", error)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
