// The SDK as a handler sees it, against the fake server.

import assert from "node:assert/strict";
import test from "node:test";

import { Cancelled, Context, Fatal, RetryAfter, Waiting, handler, raw } from "windlass";
import { Fake } from "windlass/testing";

import { millis } from "../src/duration.js";
import { find } from "../src/handlers.js";

async function total(ctx, order) {
  let { done, sum } = ctx.state() ?? { done: 0, sum: 0 };
  while (done < order.items.length) {
    ctx.checkCancelled();
    sum += order.items[done];
    done += 1;
    ctx.progress(done, order.items.length, "adding up");
    ctx.checkpoint({ done, sum });
    await null;
  }
  return sum;
}

/** Doubles each number in a child of its own, and adds up what they give back. */
function doubleAll(ctx, numbers) {
  if (ctx.joined() === null) {
    for (const number of numbers) ctx.spawn("double", number);
    ctx.waitForChildren(numbers.length, { onFailure: "continue" });
  }
  assert.equal(ctx.state(), numbers.length, "the state that the wait saved");
  let sum = 0;
  for (const child of ctx.children()) if (child.state === "completed") sum += child.result();
  return sum;
}

const order = { items: [1, 2, 3, 4, 32] };

test("a handler reports and saves, and its result comes back", async () => {
  const fake = new Fake();
  assert.equal(await fake.run(total, order), 42);
  assert.equal(fake.saves, 5);
  assert.deepEqual(fake.progress.at(-1), { current: 5, total: 5, message: "adding up" });
  assert.deepEqual(fake.state(), { done: 5, sum: 42 });
});

test("a later attempt resumes from the last checkpoint", async () => {
  const fake = new Fake();
  fake.failCheckpointsAfter(3);
  await assert.rejects(fake.run(total, order), /not saved/);
  fake.resume();
  assert.equal(await fake.run(total, order), 42);
  assert.equal(fake.progress.length, 4 + 2);
});

test("a request to stop becomes Cancelled, with its reason", async () => {
  const fake = new Fake();
  fake.cancelAfter(2, "swap");
  await assert.rejects(fake.run(total, order), (error) => error instanceof Cancelled && error.reason === "swap");
  assert.equal(fake.saves, 2);
});

test("state of another schema is an error, and can be read by hand", async () => {
  const fake = new Fake();
  await fake.run((ctx) => ctx.checkpoint([1]), null);
  const second = (ctx) => {
    ctx.schema = 2;
    assert.equal(ctx.stateRaw().schema, 1);
    return ctx.state();
  };
  await assert.rejects(fake.run(second, null), /schema 1, and this handler reads 2/);
});

test("children are started with a checkpoint or the result, and not by a failure", async () => {
  const fake = new Fake();
  const twice = (ctx, fails) => {
    assert.equal(ctx.spawn("a", { n: 1 }, { delay: "1m", tags: { k: "v" }, uniquePeriod: 5 }), fake.children.length);
    if (fails) throw new Error("no");
    ctx.checkpoint(1);
    ctx.spawn("b", new Uint8Array([1, 2]));
  };
  await assert.rejects(fake.run(twice, true));
  assert.deepEqual(fake.children, []);
  await fake.run(twice, false);
  assert.deepEqual(fake.children.map((child) => child.queue), ["a", "b"]);
  assert.equal(fake.children[0].delayMs, 60_000);
  assert.equal(fake.children[0].uniquePeriodMs, 5);
  assert.deepEqual(fake.children[1].payload, new Uint8Array([1, 2]));
});

test("config, secrets, log and the job itself", async () => {
  const fake = new Fake({ queue: "q", tags: { a: "b" }, scope: "user:1", config: { size: "3" }, secrets: { key: "s3" } });
  const look = (ctx) => {
    ctx.log("warn", "careful");
    return [ctx.config("size"), ctx.config("none"), ctx.secret("key"), ctx.job.tags, ctx.job.scope, ctx.job.attempt];
  };
  assert.deepEqual(await fake.run(look), ["3", null, "s3", { a: "b" }, "user:1", 1]);
  assert.deepEqual(fake.log, [["warn", "careful"]]);
  await assert.rejects(fake.run((ctx) => ctx.secret("other")), Fatal);
  await assert.rejects(fake.run((ctx) => ctx.log("loud", "x")), /debug, info, warn, error/);
});

test("bytes stay bytes", async () => {
  const reversed = raw((ctx, bytes) => bytes.slice().reverse());
  assert.deepEqual(await new Fake().run(reversed, new Uint8Array([200, 2, 255])), new Uint8Array([255, 2, 200]));
  await assert.rejects(new Fake().run(raw(() => "text"), new Uint8Array()), Fatal);
});

test("a payload that is no JSON is fatal, and so is a result that cannot be", async () => {
  await assert.rejects(new Fake().run(total, new TextEncoder().encode("{")), Fatal);
  await assert.rejects(new Fake().run(total, new Uint8Array([0xff])), Fatal);
  const loop = {};
  loop.loop = loop;
  await assert.rejects(new Fake().run(() => loop), Fatal);
  await assert.rejects(new Fake().run(() => () => 1), Fatal);
});

test("the handler is found by its queue, and two for one are refused", () => {
  const send = () => 1;
  const rest = () => 2;
  assert.throws(() => find("mails"), Fatal);
  handler(["mails", "letters"], send);
  assert.throws(() => handler("mails", rest), /two handlers/);
  handler("*", rest);
  assert.equal(find("letters"), send);
  assert.equal(find("anything"), rest);
  assert.throws(() => handler("x"), TypeError);
});

test("spans of time are read as people write them", () => {
  const right = [["500ms", 500], ["1s", 1000], ["1.5m", 90_000], ["2h", 7_200_000], ["1d", 86_400_000], [250, 250]];
  for (const [span, ms] of right) assert.equal(millis(span), ms);
  for (const wrong of ["", "s", "1 week", "-1s", -1, NaN, null]) assert.throws(() => millis(wrong), RangeError);
});

test("a checkpoint is saved as often as asked and no oftener", async () => {
  const fake = new Fake();
  const often = (ctx) => [ctx.checkpointEvery("1h", 1), ctx.checkpointEvery(0, 2), ctx.checkpointEvery("1h", 3)];
  assert.deepEqual(await fake.run(often), [false, true, false]);
  assert.equal(fake.state(), 2);
});

test("errors say what should happen next", () => {
  assert.equal(new RetryAfter("9s", "busy").delayMs, 9000);
  assert.ok(new Fatal("x") instanceof Error);
  assert.equal(typeof Context, "function");
});

test("a parent waits for its children and reads their results", async () => {
  const fake = new Fake();
  await assert.rejects(fake.run(doubleAll, [1, 2, 3]), Waiting);
  assert.deepEqual(fake.children.map(({ queue }) => queue), ["double", "double", "double"]);
  await assert.rejects(fake.run(doubleAll, [1, 2, 3]), /child 0 has not ended/);
  for (const ordinal of [0, 1, 2]) fake.childCompleted(ordinal, 2 * (ordinal + 1));
  assert.equal(await fake.run(doubleAll, [1, 2, 3]), 12);
});

test("a child that died is seen, or takes its parent along", async () => {
  const fake = new Fake();
  await assert.rejects(fake.run(doubleAll, [1, 2]), Waiting);
  fake.childCompleted(0, 2);
  fake.childDied(1, "boom");
  assert.equal(await fake.run(doubleAll, [1, 2]), 2);

  const strict = (ctx) => {
    ctx.spawn("double", 1);
    ctx.waitForChildren();
  };
  const other = new Fake();
  await assert.rejects(other.run(strict, null), Waiting);
  other.childDied(0, "boom");
  await assert.rejects(other.run(strict, null), /a child failed/);
});

test("an error after a wait counts, and nothing waits", async () => {
  const torn = (ctx) => {
    ctx.spawn("double", 1);
    assert.throws(() => ctx.waitForChildren(1), Waiting);
    throw new Error("no after all");
  };
  const fake = new Fake();
  await assert.rejects(fake.run(torn, null), /no after all/);
  assert.deepEqual([fake.children, fake.state()], [[], null]);
});

test("a large result is read by itself", async () => {
  const length = (ctx) => {
    if (ctx.joined() === null) {
      ctx.spawn("large", 1);
      ctx.waitForChildren();
    }
    const [child] = ctx.children();
    return child.result().length;
  };
  const fake = new Fake();
  await assert.rejects(fake.run(length, null), Waiting);
  fake.childCompleted(0, "x".repeat(100_000));
  assert.equal(await fake.run(length, null), 100_000);
});

test("records commit with a checkpoint or the result, and others read and mark them", async () => {
  const compare = (ctx, fail) => {
    ctx.putRecord("a/b", [ctx.job.attempt]);
    const theirs = ctx.getRecord("src", "a/b");
    ctx.mark("src", "a/b", "newer");
    if (theirs === null || fail) throw new Error("crash");
    return theirs.value === 7 && ctx.job.round === 3;
  };
  const fake = new Fake({ queue: "dst", round: 3 });
  await assert.rejects(fake.run(compare, false), /crash/);
  fake.putRecord("src", "a/b", 7);
  await assert.rejects(fake.run(compare, true), /crash/);
  assert.equal(fake.getRecord("dst", "a/b"), null);
  assert.equal(await fake.run(compare, false), true);
  assert.deepEqual(fake.getRecord("dst", "a/b"), { value: [3], mark: null });
  assert.deepEqual(fake.getRecord("src", "a/b"), { value: 7, mark: "newer" });
});
