// Builds real components, with the installed tools.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const SDK = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

test("the same source gives the same component, wherever and whenever it is built", () => {
  const work = fs.mkdtempSync(path.join(os.tmpdir(), "windlass-build-"));
  const build = (name, source, http) => {
    const folder = path.join(work, name);
    fs.mkdirSync(folder, { recursive: true });
    fs.writeFileSync(path.join(folder, "app.js"), source);
    const out = path.join(work, `${name.replaceAll("/", "-")}.wasm`);
    const env = { ...process.env, WINDLASS_BUILD_HTTP: http ? "1" : "0" };
    const made = spawnSync(process.execPath, [path.join(SDK, "build.mjs"), folder, out], { env, encoding: "utf8" });
    assert.equal(made.status, 0, made.stderr);
    assert.equal(made.stderr, "");
    return fs.readFileSync(out);
  };
  try {
    // What a module reads of the clock and of chance while it is loaded is part of the snapshot.
    const source = 'import { handler } from "windlass";\nconst at = [Date.now(), performance.now()];\nhandler("q", () => at);\n';
    for (const http of [false, true]) {
      const [first, second] = ["one", "another/place"].map((name) => build(`${name}-${http}`, source, http));
      assert.ok(first.equals(second), `http: ${http}`);
    }
    const other = build("other", source.replace('"q"', '"r"'), false);
    assert.ok(!other.equals(build("again", source, false)), "another source is another component");
  } finally {
    fs.rmSync(work, { recursive: true });
  }
});
