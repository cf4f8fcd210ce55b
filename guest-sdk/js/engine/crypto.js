// The part of Web Crypto that handlers ask for most: random numbers, SHA-256, and HMAC with it.

import { getRandomBytes } from "host:random/random@0.2.6";

import { running } from "./loop.js";

const K = new Uint32Array(64);
const START = new Uint32Array(8);

// The constants are the first bits of the fractions of the roots of the first primes.
for (let candidate = 2, found = 0; found < 64; candidate++) {
  let prime = true;
  for (let factor = 2; factor * factor <= candidate; factor++) prime &&= candidate % factor !== 0;
  if (!prime) continue;
  const bits = (root) => ((root - Math.floor(root)) * 0x1_0000_0000) >>> 0;
  if (found < 8) START[found] = bits(Math.sqrt(candidate));
  K[found++] = bits(Math.cbrt(candidate));
}

export function sha256(bytes) {
  const padded = new Uint8Array(((bytes.length + 72) >> 6) << 6);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 0x2000_0000));
  view.setUint32(padded.length - 4, bytes.length << 3);
  const state = Uint32Array.from(START);
  const w = new Uint32Array(64);
  for (let at = 0; at < padded.length; at += 64) block(view, at, state, w);
  const out = new DataView(new ArrayBuffer(32));
  state.forEach((word, i) => out.setUint32(i * 4, word));
  return new Uint8Array(out.buffer);
}

function block(view, at, state, w) {
  const turn = (x, n) => (x >>> n) | (x << (32 - n));
  for (let i = 0; i < 16; i++) w[i] = view.getUint32(at + i * 4);
  for (let i = 16; i < 64; i++) {
    const s0 = turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ (w[i - 15] >>> 3);
    const s1 = turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ (w[i - 2] >>> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < 64; i++) {
    const t1 = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i]) | 0;
    const t2 = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((word, i) => (state[i] += word));
}

export function hmac(key, bytes) {
  const short = key.length > 64 ? sha256(key) : key;
  const pad = (value) => Uint8Array.from({ length: 64 }, (_, i) => (short[i] ?? 0) ^ value);
  const join = (a, b) => {
    const both = new Uint8Array(a.length + b.length);
    both.set(a);
    both.set(b, a.length);
    return both;
  };
  return sha256(join(pad(0x5c), sha256(join(pad(0x36), bytes))));
}

function view(data) {
  return ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data);
}

function need(what, name, known) {
  const given = String(name?.name ?? name).toUpperCase();
  if (given !== known) throw new Error(`crypto.subtle: ${what} can be ${known} here, not ${given}`);
}

function chance(bytes) {
  if (!running) throw new Error("random numbers are there while a job runs, not while modules are loaded: every job would get the same");
  return getRandomBytes(bytes);
}

export const crypto = {
  getRandomValues(array) {
    view(array).set(chance(array.byteLength));
    return array;
  },

  randomUUID() {
    const bytes = new Uint8Array(chance(16));
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    return bytes.toHex().replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  },

  subtle: {
    async digest(algorithm, data) {
      need("a digest", algorithm, "SHA-256");
      return sha256(view(data)).buffer;
    },

    async importKey(format, data, algorithm, extractable, usages) {
      need("the format of a key", format, "RAW");
      need("a key", algorithm, "HMAC");
      need("the hash of a key", algorithm.hash, "SHA-256");
      return { type: "secret", algorithm, extractable, usages, bytes: view(data).slice() };
    },

    async sign(algorithm, key, data) {
      need("a signature", algorithm, "HMAC");
      return hmac(key.bytes, view(data)).buffer;
    },

    async verify(algorithm, key, signature, data) {
      need("a signature", algorithm, "HMAC");
      const right = hmac(key.bytes, view(data));
      const given = view(signature);
      // Every byte is looked at, so that the time tells nothing.
      let differs = right.length ^ given.length;
      right.forEach((byte, i) => (differs |= byte ^ (given[i] ?? 0)));
      return differs === 0;
    },
  },
};
