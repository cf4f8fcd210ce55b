// The handler against the fake server, and receivers of our own in place of the network: natively, without wasm.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import test, { beforeEach } from "node:test";

import { Cancelled, Fatal, RetryAfter } from "windlass";
import { Fake } from "windlass/testing";

import { fanout, type Order } from "./app.ts";

type Answer = { status: number; headers?: Record<string, string> } | "dead";

let sent: { url: string; headers: Record<string, string>; body: string }[];
let answers: Record<string, Answer[]>;
let open = 0;
let mostOpen = 0;

beforeEach(() => {
  sent = [];
  answers = {};
  open = mostOpen = 0;
  globalThis.fetch = (async (url: string, init: { headers: Record<string, string>; body: Uint8Array }) => {
    open += 1;
    mostOpen = Math.max(mostOpen, open);
    sent.push({ url, headers: init.headers, body: new TextDecoder().decode(init.body) });
    await new Promise((resolve) => setImmediate(resolve));
    open -= 1;
    const answer = answers[url]?.shift() ?? { status: 204 };
    if (answer === "dead") throw new TypeError("connection refused");
    return { status: answer.status, headers: new Headers(answer.headers) };
  }) as unknown as typeof fetch;
});

const hooks = (count: number) => Array.from({ length: count }, (_, i) => `https://hook${i}.test/in`);

test("every target gets the event, and no more at once than asked", async () => {
  const fake = new Fake();
  const order: Order = { event: { kind: "paid", note: "Grüße 🎉" }, targets: hooks(20), concurrency: 3 };
  assert.deepEqual(await fake.run(fanout, order), { delivered: 20, refused: [], requests: 20 });
  assert.deepEqual(sent.map((each) => each.url).sort(), hooks(20).sort());
  assert.deepEqual(JSON.parse(sent[0].body), order.event);
  assert.equal(mostOpen, 3);
  assert.equal(fake.saves, 20);
});

test("the signature is the one that a receiver computes", async () => {
  const fake = new Fake({ secrets: { key: "topsecret", other: `whsec_${btoa("raw bytes")}` } });
  const targets = ["https://a.test/", { url: "https://b.test/", secret: "other", headers: { "x-team": "7" } }];
  await fake.run(fanout, { event: [1], targets, secret: "key" });
  const keys: Record<string, string> = { "https://a.test/": "topsecret", "https://b.test/": "raw bytes" };
  for (const { url, headers, body } of sent) {
    const text = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
    assert.equal(headers["webhook-signature"], `v1,${createHmac("sha256", keys[url]).update(text).digest("base64")}`);
  }
  assert.equal(sent[1].headers["x-team"], "7");
});

test("who was not reached is tried again, and nobody else", async () => {
  const fake = new Fake();
  const [a, b, c] = hooks(3);
  answers = { [a]: ["dead"], [b]: [{ status: 503 }] };
  const order = { event: 1, targets: [a, b, c] };
  await assert.rejects(fake.run(fanout, order), /2 of 3 were not reached: .*connection refused.*answered 503/);
  assert.deepEqual(await fake.run(fanout, order), { delivered: 3, refused: [], requests: 5 });
  assert.deepEqual(sent.slice(3).map((each) => each.url), [a, b]);
  const ids = sent.map((each) => each.headers["webhook-id"]);
  assert.equal(ids[3], ids[0], "the same id in each attempt");
});

test("a receiver that says when is believed, within reason", async () => {
  const [a] = hooks(1);
  for (const [header, ms] of [["7", 7000], ["999999", 3_600_000]] as const) {
    answers = { [a]: [{ status: 429, headers: { "retry-after": header } }] };
    const error = await new Fake().run(fanout, { event: 1, targets: [a] }).then(() => null, (error: unknown) => error);
    assert.ok(error instanceof RetryAfter);
    assert.equal(error.delayMs, ms);
  }
});

test("who refuses for good is in the result", async () => {
  const [a, b] = hooks(2);
  answers = { [a]: [{ status: 410 }], [b]: [{ status: 302, headers: { location: "https://elsewhere.test/" } }] };
  const result = await new Fake().run(fanout, { event: 1, targets: [a, b] });
  assert.deepEqual(result, { delivered: 0, refused: [{ url: a, status: 410 }, { url: b, status: 302 }], requests: 2 });
});

test("a crash in the middle repeats only what was not saved", async () => {
  const fake = new Fake();
  const order = { event: 1, targets: hooks(6), concurrency: 1 };
  fake.failCheckpointsAfter(4);
  await assert.rejects(fake.run(fanout, order), /not saved/);
  fake.resume();
  assert.equal((await fake.run(fanout, order)).delivered, 6);
  assert.equal(sent.length, 5 + 2);
});

test("it stops between two requests when it is asked to", async () => {
  const fake = new Fake();
  fake.cancelAfter(2);
  await assert.rejects(fake.run(fanout, { event: 1, targets: hooks(5), concurrency: 1 }), Cancelled);
  assert.equal(sent.length, 2);
});

test("an order that makes no sense is fatal", async () => {
  const wrong = [
    { event: 1, targets: [] },
    { event: 1, targets: ["ftp://x"] },
    { targets: hooks(1) },
    { event: 1, targets: hooks(1), concurrency: 0 },
    { event: 1, targets: hooks(1), timeout_ms: 0 },
    { event: 1, targets: hooks(1), secret: "not granted" },
  ];
  for (const order of wrong) await assert.rejects(new Fake().run(fanout, order as Order), Fatal, JSON.stringify(order));
});
