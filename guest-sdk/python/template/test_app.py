import unittest

import windlass
from windlass.testing import Fake

from app import Order, count


class Count(unittest.TestCase):
    def test_it_counts(self):
        self.assertEqual(Fake().run(count, Order(steps=4)), {"sum": 10})

    def test_a_second_attempt_resumes_where_the_first_stopped(self):
        fake = Fake()
        fake.fail_checkpoints_after(2)
        with self.assertRaises(RuntimeError):
            fake.run(count, Order(steps=4))
        fake.resume()
        self.assertEqual(fake.run(count, Order(steps=4)), {"sum": 10})
        self.assertEqual(len(fake.progress), 3 + 2)

    def test_it_stops_when_it_is_asked_to(self):
        fake = Fake()
        fake.cancel_after(1)
        with self.assertRaises(windlass.Cancelled):
            fake.run(count, Order(steps=4))


if __name__ == "__main__":
    unittest.main()
