import unittest

import windlass
from windlass.testing import Fake

from app import count_words


class CountWords(unittest.TestCase):
    def test_words_are_counted(self):
        fake = Fake()
        self.assertEqual(fake.run(count_words, {"text": "one two\nthree"}), {"lines": 2, "words": 3})
        self.assertEqual(len(fake.progress), 2)

    def test_it_stops_when_it_is_asked_to(self):
        fake = Fake()
        fake.cancel_after(1)
        with self.assertRaises(windlass.Cancelled):
            fake.run(count_words, {"text": "one\ntwo"})


if __name__ == "__main__":
    unittest.main()
