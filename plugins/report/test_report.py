"""The handler against the fake server: natively, without wasm."""

import random
import sys
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "guest-sdk/python")]

import windlass
from app import Order, report
from windlass.testing import Fake

SMALL = "city,amount,note\nOslo,10,\nBern,2.5,x\nOslo,-4,\"two\nlines\"\n"


def large(rows=9000):
    random.seed(7)
    cells = (f"{random.choice('abcdefghijkl')},{random.randint(-50, 1000)}" for _ in range(rows))
    return "group,value\n" + "\n".join(cells)


class Report(unittest.TestCase):
    def test_columns_are_summed_up(self):
        result = Fake().run(report, Order(csv=SMALL))
        city, amount, note = result["columns"]
        self.assertEqual((result["rows"], city["first"], city["last"], city["numbers"]), (3, "Bern", "Oslo", 0))
        self.assertEqual((amount["sum"], amount["least"], amount["most"], amount["numbers"]), (8.5, -4, 10, 3))
        self.assertAlmostEqual(amount["deviation"], 7.00595, places=5)
        self.assertEqual((note["filled"], note["empty"]), (2, 1))
        self.assertNotIn("svg", result)

    def test_groups_are_ranked_and_drawn(self):
        result = Fake().run(report, Order(csv=SMALL, group_by="city", sum="amount", title="A & <B>"))
        self.assertEqual(result["groups"], [{"name": "Oslo", "value": 6.0}, {"name": "Bern", "value": 2.5}])
        drawing = xml.fromstring(result["svg"])
        words = [each.text for each in drawing.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("A & <B>", words)
        self.assertIn("sum of amount by city", words)
        self.assertEqual(len(list(drawing.iter("{http://www.w3.org/2000/svg}rect"))), 1 + 2)

    def test_what_is_beyond_the_top_is_one_bar(self):
        result = Fake().run(report, Order(csv=large(), group_by="group", top=3))
        self.assertEqual([each["name"] for each in result["groups"]][3:], ["9 more"])
        self.assertEqual(sum(each["value"] for each in result["groups"]), 9000)

    def test_a_later_attempt_reads_no_row_twice(self):
        order = Order(csv=large(), group_by="group", sum="value", checkpoint_ms=0)
        whole = Fake().run(report, order)
        for crash in range(1, 5):
            fake = Fake()
            fake.fail_checkpoints_after(crash)
            with self.assertRaises(RuntimeError):
                fake.run(report, order)
            fake.resume()
            self.assertEqual(fake.run(report, order), whole)

    def test_it_saves_its_last_rows_when_it_is_asked_to_stop(self):
        fake = Fake()
        fake.cancel_after(2)
        order = Order(csv=large(), checkpoint_ms=3_600_000)
        with self.assertRaises(windlass.Cancelled):
            fake.run(report, order)
        self.assertEqual((fake.saves, fake.state()["rows"]), (1, 4000))
        fake.resume()
        self.assertEqual(fake.run(report, order)["rows"], 9000)

    def test_crooked_rows_are_left_out_and_told(self):
        fake = Fake()
        result = fake.run(report, Order(csv="\ufeffa;b\r\n1;2\r\n\r\n3\r\n4;5;6\r\n7;8", delimiter=";"))
        self.assertEqual((result["rows"], result["bad_rows"], result["columns"][0]["sum"]), (2, 2, 8))
        self.assertEqual(fake.log[0][0], "warn")

    def test_an_order_that_makes_no_sense_is_fatal(self):
        wrong = [
            Order(csv=""),
            Order(csv="a,a\n1,2"),
            Order(csv=SMALL, group_by="country"),
            Order(csv=SMALL, sum="costs"),
            Order(csv=SMALL, top=0),
            Order(csv=SMALL, delimiter="::"),
            Order(csv='a,b\n"open,2'),
        ]
        for order in wrong:
            with self.subTest(order), self.assertRaises(windlass.Fatal):
                Fake().run(report, order)


if __name__ == "__main__":
    unittest.main()
