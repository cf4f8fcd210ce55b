"""The SDK as a handler sees it, against the fake server."""

import datetime
import enum
import json
import sys
import unittest
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Optional, TypedDict

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import windlass
from windlass import convert, handlers
from windlass.duration import millis, seconds
from windlass.testing import Fake


@dataclass
class Order:
    items: list[int]
    note: Optional[str] = None


@dataclass
class Standing:
    done: int = 0
    sum: int = 0


def total(ctx: windlass.Context, order: Order) -> int:
    standing = ctx.state(Standing) or Standing()
    while standing.done < len(order.items):
        ctx.check_cancelled()
        standing.sum += order.items[standing.done]
        standing.done += 1
        ctx.progress(standing.done, len(order.items), "adding up")
        ctx.checkpoint(standing)
    return standing.sum


def double_all(ctx: windlass.Context, numbers: list[int]) -> int:
    """Doubles each number in a child of its own, and adds up their results."""
    if ctx.joined() is None:
        for number in numbers:
            ctx.spawn("double", number)
        ctx.wait_for_children(len(numbers), on_failure="continue")
    assert ctx.state(int) == len(numbers) == ctx.joined().total
    return sum(child.result(int) for child in ctx.children() if child.state == "completed")


ORDER = Order(items=[1, 2, 3, 4, 32])


class Handlers(unittest.TestCase):
    def test_a_handler_reports_and_saves_and_its_result_comes_back(self):
        fake = Fake()
        self.assertEqual(fake.run(total, ORDER), 42)
        self.assertEqual(fake.saves, 5)
        self.assertEqual(fake.progress[-1], windlass.Progress(message="adding up", current=5, total=5))
        self.assertEqual(fake.state(Standing), Standing(done=5, sum=42))

    def test_a_later_attempt_goes_on_from_the_last_checkpoint(self):
        fake = Fake()
        fake.fail_checkpoints_after(3)
        with self.assertRaisesRegex(RuntimeError, "not saved"):
            fake.run(total, ORDER)
        fake.resume()
        self.assertEqual(fake.run(total, ORDER), 42)
        self.assertEqual(len(fake.progress), 4 + 2)

    def test_a_request_to_stop_passes_by_except_exception(self):
        def careless(ctx, order: Order):
            try:
                return total(ctx, order)
            except Exception:
                return "swallowed"

        fake = Fake()
        fake.cancel_after(2, "swap")
        with self.assertRaises(windlass.Cancelled) as caught:
            fake.run(careless, ORDER)
        self.assertEqual((caught.exception.reason, fake.saves), ("swap", 2))

    def test_state_of_another_schema_is_an_error_and_can_be_read_by_hand(self):
        fake = Fake()
        fake.run(lambda ctx: ctx.checkpoint([1]))

        def second(ctx):
            ctx.schema = 2
            self.assertEqual(ctx.state_raw(), (1, b"[1]"))
            ctx.state()

        with self.assertRaisesRegex(RuntimeError, "schema 1, and this handler reads 2"):
            fake.run(second)

    def test_children_are_started_with_a_checkpoint_or_the_result_and_not_by_a_failure(self):
        fake = Fake()

        def twice(ctx, fails: bool):
            ctx.spawn("a", {"n": 1}, delay="1m", tags={"k": "v"}, priority="high")
            if fails:
                raise OSError("no")
            ctx.checkpoint(1)
            self.assertEqual(ctx.spawn("b", b"\xff"), 1)

        with self.assertRaises(OSError):
            fake.run(twice, True)
        self.assertEqual(fake.children, [])
        fake.run(twice, False)
        first, second = fake.children
        self.assertEqual((first.queue, first.payload, first.delay_ms, first.tags), ("a", b'{"n":1}', 60_000, {"k": "v"}))
        self.assertEqual(second.payload, b"\xff")
        with self.assertRaisesRegex(ValueError, "critical, high, normal"):
            fake.run(lambda ctx: ctx.spawn("a", 1, priority="urgent"))

    def test_a_parent_waits_for_its_children_and_reads_their_results(self):
        fake = Fake()
        with self.assertRaises(windlass.Waiting):
            fake.run(double_all, [1, 2, 3])
        self.assertEqual([child.queue for child in fake.children], ["double"] * 3)
        with self.assertRaisesRegex(windlass.Fatal, "child 0 has not ended"):
            fake.run(double_all, [1, 2, 3])
        for ordinal in range(3):
            fake.child_completed(ordinal, 2 * (ordinal + 1))
        self.assertEqual(fake.run(double_all, [1, 2, 3]), 12)

    def test_a_child_that_died_is_seen_or_takes_its_parent_along(self):
        fake = Fake()
        with self.assertRaises(windlass.Waiting):
            fake.run(double_all, [1, 2])
        fake.child_completed(0, 2)
        fake.child_died(1, "boom")
        self.assertEqual(fake.run(double_all, [1, 2]), 2)

        def strict(ctx: windlass.Context) -> None:
            ctx.spawn("double", 1)
            ctx.wait_for_children()

        fake = Fake()
        with self.assertRaises(windlass.Waiting):
            fake.run(strict)
        fake.child_died(0, "boom")
        with self.assertRaisesRegex(windlass.Fatal, "a child failed"):
            fake.run(strict)

    def test_an_error_after_a_wait_counts_and_nothing_waits(self):
        def torn(ctx: windlass.Context) -> None:
            ctx.spawn("double", 1)
            try:
                ctx.wait_for_children(1)
            except windlass.Waiting:
                raise RuntimeError("no after all")

        fake = Fake()
        with self.assertRaisesRegex(RuntimeError, "no after all"):
            fake.run(torn)
        self.assertEqual((fake.children, fake.state()), ([], None))

    def test_a_result_is_typed_and_a_large_one_is_read_by_itself(self):
        def length(ctx: windlass.Context) -> int:
            if ctx.joined() is None:
                ctx.spawn("large", 1)
                ctx.wait_for_children()
            (child,) = ctx.children()
            self.assertRaisesRegex(windlass.Fatal, "child 0 is not what was expected", child.result, int)
            return len(child.result(str))

        fake = Fake()
        with self.assertRaises(windlass.Waiting):
            fake.run(length)
        fake.child_completed(0, "x" * 100_000)
        self.assertEqual(fake.run(length), 100_000)

    def test_records_commit_with_a_checkpoint_or_the_result_and_others_read_and_mark_them(self):
        def compare(ctx: windlass.Context, fail: bool) -> bool:
            ctx.put_record("a/b", [ctx.job.attempt])
            theirs = ctx.get_record("src", "a/b", int)
            ctx.mark("src", "a/b", "newer")
            if theirs is None or fail:
                raise RuntimeError("crash")
            return theirs.value == 7 and ctx.job.round == 3

        fake = Fake(queue="dst", round=3)
        self.assertRaises(RuntimeError, fake.run, compare, False)
        fake.put_record("src", "a/b", 7)
        self.assertRaises(RuntimeError, fake.run, compare, True)
        self.assertIsNone(fake.get_record("dst", "a/b"))
        self.assertTrue(fake.run(compare, False))
        self.assertEqual(fake.get_record("dst", "a/b"), windlass.Recorded([3]))
        self.assertEqual(fake.get_record("src", "a/b", int), windlass.Recorded(7, "newer"))

    def test_config_secrets_log_and_the_job_itself(self):
        fake = Fake(queue="q", tags={"a": "b"}, scope="user:1", config={"size": "3"}, secrets={"key": "s3"})

        def look(ctx):
            ctx.log("warn", "careful")
            ctx.report("half", phase="import", percent=50)
            job = ctx.job
            return [ctx.config("size"), ctx.config("none", "-"), ctx.secret("key"), job.tags, job.scope, job.attempt]

        self.assertEqual(fake.run(look), ["3", "-", "s3", {"a": "b"}, "user:1", 1])
        self.assertEqual(fake.log, [("warn", "careful")])
        with self.assertRaises(windlass.Fatal):
            fake.run(lambda ctx: ctx.secret("other"))
        with self.assertRaisesRegex(ValueError, "debug, info, warn, error"):
            fake.run(lambda ctx: ctx.log("loud", "x"))

    def test_a_checkpoint_is_saved_as_often_as_asked_and_no_oftener(self):
        fake = Fake()
        often = lambda ctx: [ctx.checkpoint_every("1h", 1), ctx.checkpoint_every(0, 2), ctx.checkpoint_every("1h", 3)]
        self.assertEqual(fake.run(often), [False, True, False])
        self.assertEqual(fake.state(), 2)

    def test_bytes_stay_bytes(self):
        def reverse(ctx, data: bytes) -> bytes:
            ctx.checkpoint(data)
            return data[::-1]

        fake = Fake()
        self.assertEqual(fake.run(reverse, b"\xc8\x02\xff"), b"\xff\x02\xc8")
        self.assertEqual(fake.state(bytes), b"\xc8\x02\xff")

    def test_a_payload_that_does_not_fit_is_fatal_and_says_where(self):
        wrong = [
            (b"{", "not JSON"),
            ({}, "items is missing"),
            ({"items": [1, "x"]}, r"items\[1\] should be a whole number, and is \"x\""),
            ({"items": [], "note": 5}, "note should be a string"),
            ([], "it should be an object"),
        ]
        for payload, words in wrong:
            with self.subTest(payload), self.assertRaisesRegex(windlass.Fatal, words):
                Fake().run(total, payload)

    def test_a_result_that_cannot_be_written_is_fatal(self):
        for result in (object(), float("nan"), {1, "x"}):
            with self.subTest(result), self.assertRaises((windlass.Fatal, TypeError)):
                Fake().run(lambda ctx: result)


class Registering(unittest.TestCase):
    def setUp(self):
        self.before = dict(handlers.registered)
        handlers.registered.clear()

    def tearDown(self):
        handlers.registered.clear()
        handlers.registered.update(self.before)

    def test_the_handler_is_found_by_its_queue_and_two_for_one_are_refused(self):
        with self.assertRaisesRegex(windlass.Fatal, "no handler for the queue `mails`"):
            handlers.find("mails")

        @windlass.handler("mails", "letters")
        def send(ctx):
            return 1

        @windlass.handler("*")
        def rest(ctx):
            return 2

        self.assertIs(handlers.find("letters").function, send)
        self.assertIs(handlers.find("anything").function, rest)
        with self.assertRaisesRegex(ValueError, "two handlers for the queue `mails`"):
            windlass.handler("mails")(rest)

    def test_what_cannot_be_a_handler_is_refused(self):
        async def later(ctx):
            pass

        with self.assertRaisesRegex(TypeError, "async"):
            windlass.handler("x")(later)
        with self.assertRaisesRegex(TypeError, "name the queues"):
            windlass.handler()
        with self.assertRaisesRegex(TypeError, "name the queues"):
            windlass.handler(total)
        with self.assertRaisesRegex(TypeError, "the context and the payload"):
            Fake().run(lambda a, b, c: 1)


class Colour(enum.Enum):
    RED = "red"


class Named(TypedDict, total=False):
    name: str


class Converting(unittest.TestCase):
    def test_values_are_read_as_their_types_say(self):
        right: list[tuple[Any, Any, Any]] = [
            (3, float, 3.0),
            (3.0, int, 3),
            ([1, "a"], tuple[int, str], (1, "a")),
            ([1, 2], tuple[int, ...], (1, 2)),
            ({"1": 2}, dict[int, int], {1: 2}),
            ([1, 1], set[int], {1}),
            (None, Optional[int], None),
            ("x", int | str, "x"),
            ("a", Literal["a", "b"], "a"),
            ("red", Colour, Colour.RED),
            ({"name": "n"}, Named, {"name": "n"}),
            ("2026-01-02", datetime.date, datetime.date(2026, 1, 2)),
            ({"any": [1]}, Any, {"any": [1]}),
            ([{"items": [1]}], list[Order], [Order([1])]),
        ]
        for value, kind, expected in right:
            with self.subTest(kind=kind):
                self.assertEqual(convert.read(value, kind), expected)

    def test_what_does_not_fit_is_a_mismatch(self):
        wrong = [(True, int), (1, bool), (1.5, int), ("1", int), (None, str), ([1], tuple[int, int]), ("c", Literal["a"]),
                 ("blue", Colour), ({"name": 1}, Named), ("soon", datetime.date), ({}, list[int]), ({"x": 1}, dict[int, int])]
        for value, kind in wrong:
            with self.subTest(kind=kind), self.assertRaises(convert.Mismatch):
                convert.read(value, kind)

    def test_what_is_written_comes_back(self):
        @dataclass
        class Whole:
            when: datetime.datetime
            colour: Colour
            orders: list[Order] = field(default_factory=list)

        whole = Whole(datetime.datetime(2026, 1, 2, 3, 4), Colour.RED, [Order([1], "ü 🎉")])
        data = convert.dumps(whole)
        self.assertIn("ü 🎉".encode(), data)
        self.assertEqual(json.loads(data)["colour"], "red")

    def test_spans_of_time_are_read_as_people_write_them(self):
        right = [("500ms", 0.5), ("1s", 1), ("1.5m", 90), ("2h", 7200), ("1d", 86400), (2, 2), (datetime.timedelta(seconds=3), 3)]
        for span, expected in right:
            self.assertEqual(seconds(span), expected)
        self.assertEqual(millis("1.5s"), 1500)
        for wrong in ("", "s", "1 week", "-1s", -1, float("nan")):
            with self.subTest(wrong), self.assertRaises(ValueError):
                seconds(wrong)


if __name__ == "__main__":
    unittest.main()
