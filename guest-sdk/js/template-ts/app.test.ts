import assert from "node:assert/strict";
import test from "node:test";

import { Cancelled } from "windlass";
import { Fake } from "windlass/testing";

import { countWords } from "./app.ts";

test("words are counted", async () => {
  const fake = new Fake();
  assert.deepEqual(await fake.run(countWords, { text: "one two\nthree" }), { lines: 2, words: 3 });
  assert.equal(fake.progress.length, 2);
});

test("it stops when it is asked to", async () => {
  const fake = new Fake();
  fake.cancelAfter(1);
  await assert.rejects(fake.run(countWords, { text: "one\ntwo" }), Cancelled);
});
