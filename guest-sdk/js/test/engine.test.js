// The globals of the engine, held against Node's own.

import assert from "node:assert/strict";
import nodeCrypto from "node:crypto";
import { register } from "node:module";
import test from "node:test";

// The imports of a component, as far as these tests need them: a clock that jumps, and chance.
register(
  `data:text/javascript,${encodeURIComponent(`
    const modules = {
      "host:io/poll@0.2.6": "export const poll = (list) => { const soonest = Math.min(...list.map((each) => each.at)); return list.flatMap((each, i) => (each.at === soonest ? [i] : [])); };",
      "host:clocks/monotonic-clock@0.2.6": "export const subscribeDuration = (ns) => { globalThis.jump(ns / 1e6); return { at: ns, [Symbol.dispose ?? Symbol.for('dispose')]() {} }; };",
      "host:random/random@0.2.6": "export const getRandomBytes = (n) => new Uint8Array(n).map(() => Math.floor(Math.random() * 256));",
    };
    export function resolve(name, context, next) {
      return name in modules ? { url: "data:text/javascript," + encodeURIComponent(modules[name]), shortCircuit: true } : next(name, context);
    }`)}`,
);
Symbol.dispose ??= Symbol.for("dispose");
Uint8Array.fromBase64 ??= (text) => new Uint8Array(Buffer.from(text, "base64"));
Uint8Array.prototype.toBase64 ??= function () {
  return Buffer.from(this).toString("base64");
};
Uint8Array.prototype.toHex ??= function () {
  return Buffer.from(this).toString("hex");
};

const seed = Number(process.env.WINDLASS_SEED ?? Date.now() % 1e9);
console.log(`WINDLASS_SEED=${seed}`);

let now = 1e12;
Date.now = () => now;
globalThis.jump = (ms) => (now += ms);

const { LoopPromise } = await import("../engine/promise.js");
const { soon, startTimer, stopTimer, turn, reset } = await import("../engine/loop.js");
const text = await import("../engine/text.js");
const url = await import("../engine/url.js");
const { crypto, hmac, sha256 } = await import("../engine/crypto.js");
const { originOfLines, renameImports } = await import("../build.mjs");
const { ownFrames } = await import("../engine/checks.js");

let state = seed;
function random(below) {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
}

/** The same program on either kind of promise: the order of events must be the same. */
async function program(Promise, soon, log) {
  Promise.resolve(1).then((n) => log.push(n)).then(() => log.push("1b")).finally(() => log.push("1c"));
  Promise.reject(new Error("a")).catch((error) => log.push(error.message)).then(() => log.push("after"));
  new Promise((resolve) => resolve({ then: (done) => done("thenable") })).then((value) => log.push(value));
  new Promise(() => {
    throw new Error("thrown");
  }).then(null, (error) => log.push(error.message));
  soon(() => log.push("soon"));
  Promise.all([1, Promise.resolve(2), { then: (done) => done(3) }]).then((all) => log.push(all));
  Promise.all([1, Promise.reject(new Error("one"))]).catch((error) => log.push(error.message));
  Promise.allSettled([1, Promise.reject(2)]).then((all) => log.push(all));
  Promise.any([Promise.reject(1), Promise.resolve(2)]).then((value) => log.push(["any", value]));
  Promise.any([Promise.reject(1)]).catch((error) => log.push(error.errors));
  Promise.race([new Promise(() => {}), Promise.resolve("race")]).then((value) => log.push(value));
  Promise.all([]).then((all) => log.push(all));
  const again = new Promise((resolve) => {
    resolve("first");
    resolve("second");
    throw new Error("ignored");
  });
  again.then((value) => log.push(value));
  const itself = new Promise((resolve) => soon(() => resolve(itself)));
  itself.catch((error) => log.push(error.constructor));
}

test("promises settle in the order of Node's", async () => {
  const theirs = [];
  program(Promise, queueMicrotask, theirs);
  await new Promise((resolve) => setTimeout(resolve));
  const ours = [];
  program(LoopPromise, soon, ours);
  let quiet = false;
  startTimer(() => (quiet = true), 0);
  turn(() => quiet);
  assert.deepEqual(ours, theirs);
  assert.equal(ours.length, 17);
});

test("timers fire in their order, and a stopped one does not", () => {
  reset();
  const log = [];
  startTimer(() => log.push("late"), 50);
  startTimer(() => log.push("early"), 10);
  const stopped = startTimer(() => log.push("never"), 20);
  stopTimer(stopped);
  const every = startTimer(() => log.push("tick") >= 4 && stopTimer(every), 15, 15);
  turn(() => log.includes("late"));
  assert.deepEqual(log, ["early", "tick", "tick", "tick", "late"]);
});

test("a promise that nothing will settle is an error, not an endless wait", () => {
  reset();
  assert.throws(() => turn(() => false), /nothing will settle/);
});

test("UTF-8 is that of Node, for good and for damaged bytes", () => {
  const theirs = new TextDecoder();
  const ours = new text.TextDecoder();
  for (let round = 0; round < 2000; round++) {
    const bytes = new Uint8Array(random(12)).map(() => [random(256), 0x80 + random(64), 0xc0 + random(64), random(128)][random(4)]);
    assert.equal(ours.decode(bytes), theirs.decode(bytes), `seed ${seed}: ${bytes}`);
  }
  for (const whole of ["", "plain", "Grüße, 世界 🎉", "\ufeffbom", "half \ud83c pair"]) {
    assert.deepEqual([...new text.TextEncoder().encode(whole)], [...new TextEncoder().encode(whole)]);
    const bytes = new TextEncoder().encode(whole);
    assert.equal(ours.decode(bytes.buffer), theirs.decode(bytes));
  }
  assert.throws(() => new text.TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array([0xff])), TypeError);
  assert.throws(() => new text.TextDecoder("latin1"), RangeError);
});

test("SHA-256 and HMAC are those of Node", async () => {
  reset();
  for (let round = 0; round < 100; round++) {
    const data = new Uint8Array(random(300)).map(() => random(256));
    const key = new Uint8Array(random(150)).map(() => random(256));
    assert.equal(Buffer.from(sha256(data)).toString("hex"), nodeCrypto.createHash("sha256").update(data).digest("hex"), `seed ${seed}`);
    assert.equal(Buffer.from(hmac(key, data)).toString("hex"), nodeCrypto.createHmac("sha256", key).update(data).digest("hex"), `seed ${seed}`);
  }
  const use = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", new Uint8Array([1, 2]), use, false, ["sign"]);
  const signed = await crypto.subtle.sign("HMAC", key, new Uint8Array([3]));
  assert.equal(await crypto.subtle.verify("HMAC", key, signed, new Uint8Array([3])), true);
  assert.equal(await crypto.subtle.verify("HMAC", key, signed, new Uint8Array([4])), false);
  await assert.rejects(crypto.subtle.digest("SHA-1", new Uint8Array()), /SHA-256/);
  assert.match(crypto.randomUUID(), /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test("addresses are those of Node", () => {
  const given = [
    ["http://example.com"],
    ["HTTPS://User:Pw@Example.COM:443/a/../b/./c?x=1&y=ü#frag"],
    ["http://127.0.0.1:8080/a b?q=a b"],
    ["http://[::1]:99/x"],
    ["../up?z", "http://h/a/b/c?d#e"],
    ["/root", "http://h:1/a"],
    ["//other/x", "https://h/a"],
    ["?only", "http://h/a/b?c"],
    ["", "http://h/a/b?c#d"],
    ["next", "http://h"],
  ];
  const parts = ["href", "protocol", "hostname", "host", "port", "pathname", "search", "hash", "origin", "username"];
  for (const [address, base] of given) {
    const [ours, theirs] = [new url.URL(address, base), new URL(address, base)];
    for (const part of parts) assert.equal(ours[part], theirs[part], `${part} of ${address} from ${base}`);
  }
  for (const wrong of ["nonsense", "http://", "/path"]) assert.equal(url.URL.canParse(wrong), false, wrong);
});

test("queries are those of Node", () => {
  for (const query of ["", "?a=1&b=2&a=3", "x=a+b%20c&y", "ü=ß&=v"]) {
    const [ours, theirs] = [new url.URLSearchParams(query), new URLSearchParams(query)];
    assert.deepEqual([...ours], [...theirs]);
    assert.equal(String(ours), String(theirs));
    for (const each of [ours, theirs]) {
      each.append("n", "a&b=c d");
      each.set("a", "once");
      each.delete("b");
    }
    assert.equal(String(ours), String(theirs));
  }
  const address = new url.URL("http://h/p");
  address.searchParams.set("q", "1 2");
  assert.equal(address.href, "http://h/p?q=1+2");
});

test("imports get their real name, in the import sections and nowhere else", () => {
  const section = (kind, body) => [kind, body.length, ...Buffer.from(body)];
  const head = [0, 0x61, 0x73, 0x6d, 0x0d, 0, 1, 0];
  const before = [...head, ...section(10, "\u0016host:io/poll@0.2.6 host:other/x"), ...section(0, "host:http/types@0.2.6"), ...section(10, "host:http/types@0.2.6")];
  const after = [...head, ...section(10, "\u0016wasi:io/poll@0.2.6 host:other/x"), ...section(0, "host:http/types@0.2.6"), ...section(10, "wasi:http/types@0.2.6")];
  assert.deepEqual([...renameImports(Uint8Array.from(before))], after);
});

test("lines of the bundle are traced to the plugin's files", () => {
  // Three lines: the engine's, then lines 4 and 5 of app.ts.
  const map = { sources: ["engine.js", "app.ts"], mappings: "AAAA;ACGA,IAAI;AACJ" };
  assert.deepEqual(originOfLines(map, (source) => source === "engine.js"), [[2, 2, "app.ts", 4]]);
});

test("lines that the bundler has put into one are told apart by their columns", () => {
  // Line 1, column 0 is line 1 of the file, column 8 is line 2, and column 12 still is; line 2 is line 3.
  const lines = originOfLines({ mappings: "AAAA,QACA,IAAI;AACA", sources: ["app.js"] }, () => false);
  assert.deepEqual(lines, [[1, 1, "app.js", 1], [1, 1, "app.js", 2, 9], [2, 1, "app.js", 3]]);
  const at = (line, column) => ownFrames({ stack: `    at f (componentize-qjs:user.js:${line}:${column})` }, lines);
  assert.equal(at(1, 4), "\n    at f (app.js:1)");
  assert.equal(at(1, 13), "\n    at f (app.js:2)");
  assert.equal(at(2, 1), "\n    at f (app.js:3)");
  assert.equal(at(3, 1), "", "the engine's own frames are left out");
});

test("what the host makes ready wakes its promise, and a signal gives up the wait", async () => {
  reset();
  const dropped = [];
  const pollable = (name, at) => ({ at, [Symbol.dispose]: () => dropped.push(name) });
  const { AbortController } = await import("../engine/abort.js");
  const { until } = await import("../engine/loop.js");
  const before = globalThis.Promise;
  globalThis.Promise = LoopPromise;
  try {
    const controller = new AbortController();
    const log = [];
    until(pollable("soon", 1)).then(() => log.push("ready"));
    until(pollable("late", 2), controller.signal).catch((error) => log.push(error.name));
    turn(() => log.length === 1);
    controller.abort();
    turn(() => log.length === 2);
    until(pollable("never", 3), controller.signal).catch((error) => log.push(error.name));
    turn(() => log.length === 3);
    assert.deepEqual(log, ["ready", "AbortError", "AbortError"]);
    assert.deepEqual(dropped, ["soon", "late", "never"]);
  } finally {
    globalThis.Promise = before;
  }
});
