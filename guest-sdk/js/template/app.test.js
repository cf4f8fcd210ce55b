import assert from "node:assert/strict";
import test from "node:test";

import { Cancelled } from "windlass";
import { Fake } from "windlass/testing";

import { count } from "./app.js";

test("it counts", async () => {
  assert.deepEqual(await new Fake().run(count, { steps: 4 }), { sum: 10 });
});

test("a second attempt resumes where the first stopped", async () => {
  const fake = new Fake();
  fake.failCheckpointsAfter(2);
  await assert.rejects(fake.run(count, { steps: 4 }), /not saved/);
  fake.resume();
  assert.deepEqual(await fake.run(count, { steps: 4 }), { sum: 10 });
  assert.equal(fake.progress.length, 3 + 2);
});

test("it stops when it is asked to", async () => {
  const fake = new Fake();
  fake.cancelAfter(1);
  await assert.rejects(fake.run(count, { steps: 4 }), Cancelled);
});
