"""Receipts of a real server, whole and altered. `npm test` writes them into the file that COUNTERSIGN_RECEIPTS names."""
import copy
import json
import os
import unittest
from base64 import urlsafe_b64decode

from countersign import verify_receipt
from countersign.passkeys import doubt_in
from countersign.receipts import can_verify


@unittest.skipUnless("COUNTERSIGN_RECEIPTS" in os.environ, "COUNTERSIGN_RECEIPTS names no receipts")
class Receipts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(os.environ["COUNTERSIGN_RECEIPTS"], encoding="utf-8") as file:
            cls.given = json.load(file)

    def verdict(self, receipt, **options):
        return verify_receipt(receipt, self.given["jwks"], **options)

    def test_a_genuine_receipt_is_genuine_for_its_request_agent_and_server(self):
        if not can_verify():
            self.assertEqual(self.verdict(self.given["receipts"][0]["receipt"]).reason, "unsupported")
            self.skipTest("the package `cryptography` is not installed: signatures were not checked")
        for answered in self.given["receipts"]:
            agent = answered["request"]["agent_id"]
            verdict = self.verdict(json.dumps(answered["receipt"]), request=answered["request"], audience=agent)
            self.assertTrue(verdict.ok, verdict.message)
            self.assertTrue(self.verdict(answered["receipt"], issuer=verdict.claims["iss"]).ok)

    @unittest.skipUnless(can_verify(), "the package `cryptography` is not installed")
    def test_every_altered_field_is_named(self):
        for answered in self.given["receipts"]:
            for field in answered["receipt"]:
                altered = copy.deepcopy(answered["receipt"])
                altered[field] = {"forged": True}
                verdict = self.verdict(altered)
                self.assertFalse(verdict.ok, field)
                if field != "signature":
                    self.assertEqual((verdict.reason, verdict.fields), ("changed", [field]))

    @unittest.skipUnless(can_verify(), "the package `cryptography` is not installed")
    def test_the_signature_of_a_person_is_checked_with_their_passkeys(self):
        passkeys = self.given["passkeys"]
        for one in self.given["receipts"][-self.given["signed"] :]:
            receipt = one["receipt"]
            verdict = self.verdict(receipt, passkeys=passkeys, request=one["request"])
            self.assertTrue(verdict.ok, verdict.message)
            self.assertEqual(verdict.claims["v"], 2)
            self.assertEqual(self.verdict(receipt, passkeys=[]).reason, "unknown_passkey")
            others = [{**key, "jwk": {**key["jwk"], "x": passkeys[0]["jwk"]["x"][::-1]}} for key in passkeys]
            self.assertEqual(self.verdict(receipt, passkeys=others).reason, "wrong_assertion")

    def test_a_signature_over_something_else_is_refused(self):
        claims = copy.deepcopy(self.claims_of(self.given["receipts"][-1]["receipt"]))
        self.assertIsNone(doubt_in(claims, None))
        for field in ("request_digest", "shown_digest", "result", "reason", "edited"):
            self.assertEqual(doubt_in({**claims, field: "other"}, None)[0], "wrong_assertion", field)

    @staticmethod
    def claims_of(receipt):
        body = receipt["signature"].split(".")[1]
        return json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))

    @unittest.skipUnless(can_verify(), "the package `cryptography` is not installed")
    def test_foreign_keys_requests_agents_servers_and_fields_are_refused(self):
        first, other = self.given["receipts"][:2]
        receipt = first["receipt"]
        self.assertEqual(self.verdict({**receipt, "note": "paid"}).reason, "not_signed")
        self.assertEqual(self.verdict(receipt, request=other["request"]).reason, "wrong_request")
        self.assertEqual(self.verdict(receipt, audience="agent_other").reason, "wrong_audience")
        self.assertEqual(self.verdict(receipt, issuer="https://other.example").reason, "wrong_issuer")
        self.assertEqual(verify_receipt(receipt, {"keys": []}).reason, "unknown_key")
        head, body, signature = receipt["signature"].split(".")
        flipped = ("A" if signature[0] != "A" else "B") + signature[1:]
        self.assertEqual(self.verdict({**receipt, "signature": ".".join([head, body, flipped])}).reason, "bad_signature")
        retired = {"keys": [{**key, "countersign:until": "2020-01-01T00:00:00.000Z"} for key in self.given["jwks"]["keys"]]}
        self.assertEqual(verify_receipt(receipt, retired).reason, "retired_key")

    def test_texts_that_are_no_receipts_get_a_verdict(self):
        for text in ["", "[]", "null", '{"signature":1}', '{"signature":"a.b.c"}', '{"a":1,"a":2}', "[" * 10_000, '{"signature":"..\u00e9"}']:
            self.assertEqual(self.verdict(text).reason, "not_a_receipt", text[:40])


if __name__ == "__main__":
    unittest.main()
