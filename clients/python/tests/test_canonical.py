"""Canonical JSON against values whose text ECMAScript fixes."""
import json
import os
import unittest

from countersign.canonical import canonical, decode


class CanonicalJson(unittest.TestCase):
    def test_numbers_are_written_as_ecmascript_writes_them(self):
        for number, text in [
            (0, "0"), (-0.0, "0"), (1, "1"), (1.0, "1"), (0.1, "0.1"), (1e21, "1e+21"), (1e20, "100000000000000000000"),
            (1e-6, "0.000001"), (1e-7, "1e-7"), (123456789012345680000.0, "123456789012345680000"), (5e-324, "5e-324"),
            (1.7976931348623157e308, "1.7976931348623157e+308"), (-12.5, "-12.5"), (1 / 3, "0.3333333333333333"), (2.0**53, "9007199254740992"),
        ]:  # fmt: skip
            self.assertEqual(canonical(number), text)

    def test_keys_are_ordered_by_utf16_code_units(self):
        self.assertEqual(canonical({"\U0001f600": 1, "\ufb33": 2, "a": 3}), '{"a":3,"\U0001f600":1,"\ufb33":2}')

    def test_texts_escape_only_what_json_requires(self):
        self.assertEqual(canonical('\x00\x1f"\\/\u2028é\n'), '"\\u0000\\u001f\\"\\\\/\u2028é\\n"')

    def test_values_that_are_no_json_are_refused(self):
        for value in [float("nan"), float("inf"), 2**53 + 1, "\ud800", object()]:
            with self.assertRaises((ValueError, TypeError)):
                canonical(value)

    def test_repeated_keys_are_refused(self):
        for text in ['{"a":1,"a":2}', '{"b":{"a":1,"a":1}}', "NaN"]:
            with self.assertRaises(ValueError):
                decode(text)

    def test_the_server_writes_the_same_texts(self):
        path = os.environ.get("COUNTERSIGN_CANONICAL")
        if path is None:
            self.skipTest("COUNTERSIGN_CANONICAL names no texts of the server")
        with open(path, encoding="utf-8") as file:
            texts = json.load(file)
        self.assertGreater(len(texts), 100)
        for text in texts:
            self.assertEqual(canonical(json.loads(text)), text)


if __name__ == "__main__":
    unittest.main()
