// Makes builds reproducible: while the snapshot is taken, the engine reads no clock and draws no seed.
//
// componentize-qjs gives the engine the machine's clocks and a random seed, and what it reads of them stays in the snapshot: the same
// source became another component at each build. The tool takes an engine of one's own, so it gets its own one with the three
// calls overwritten. When the snapshot has been taken they are put back, so that a job sees real clocks.
//
// The engine is known by its digest. With another version of the tool `patch` finds nothing: then the offsets are to be found again, or the tool
// can do this by itself.

import crypto from "node:crypto";
import fs from "node:fs";
import path from "node:path";

const ENGINE = { bytes: 1_497_910, sha256: "25703f010b80efb806f9c35daf9ee6524ad60320c9781b0bae4e234264f8dac5" };
const HEADER = Buffer.from("0061736d01000000", "hex");
/** Where the engine calls a host function, and what stands there meanwhile: `drop, nop` for one that fills memory, `i64.const 0` for one that
 * gives a number. Both are as long as the call. */
const CALLS = [
  { what: "insecure-seed", at: 0xc9a4, call: "1003", still: "1a01" },
  { what: "monotonic-clock.now", at: 0x135572, call: "1019", still: "4200" },
  { what: "wall-clock.now", at: 0x136749, call: "101b", still: "1a01" },
];
/** How much around a call tells it from everything else. */
const AROUND = 24;

/** The engine of the installed tool, with its calls overwritten; null if it is not the one that is known here. */
export function patch(modules) {
  const engine = find(modules);
  if (engine === null) return null;
  for (const { at, still } of CALLS) engine.write(still, at, "hex");
  return engine;
}

/** Puts the calls back into a component that was made with `engine`. */
export function restore(component, engine) {
  const bytes = Buffer.from(component);
  for (const { what, at, call } of CALLS) {
    const part = engine.subarray(at - AROUND, at + AROUND);
    const found = bytes.indexOf(part);
    if (found < 0 || bytes.indexOf(part, found + 1) >= 0) throw new Error(`the engine's call of ${what} is not where it should be`);
    bytes.write(call, found + AROUND, "hex");
  }
  return bytes;
}

/** The engine lies whole in the tool's own binary. */
function find(modules) {
  for (const file of bindings(path.join(modules, "@andreiltd"))) {
    const binary = fs.readFileSync(file);
    for (let at = binary.indexOf(HEADER); at >= 0; at = binary.indexOf(HEADER, at + 1)) {
      const engine = binary.subarray(at, at + ENGINE.bytes);
      if (crypto.createHash("sha256").update(engine).digest("hex") === ENGINE.sha256) return Buffer.from(engine);
    }
  }
  return null;
}

function bindings(folder) {
  if (!fs.existsSync(folder)) return [];
  return fs.readdirSync(folder, { recursive: true }).map(String).filter((name) => name.endsWith(".node")).map((name) => path.join(folder, name));
}
