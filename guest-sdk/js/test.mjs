// Runs the tests of a plugin natively, without wasm: every *.test.js and *.test.ts in the folder.
//
// usage: test.mjs [FOLDER]     the current one if none is named
//
// They are bundled first, so that TypeScript and `windlass` are found with any Node from 18 on and nothing installed in the folder.

import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import { bundleOptions, fail, tool } from "./tools/find.mjs";

const folder = path.resolve(process.argv[2] ?? ".");
const SKIPPED = ["node_modules", "sdk", "build"];

function tests(within) {
  return fs.readdirSync(within, { withFileTypes: true }).flatMap((entry) => {
    const file = path.join(within, entry.name);
    if (entry.isDirectory()) return SKIPPED.includes(entry.name) ? [] : tests(file);
    return /\.test\.(js|mjs|ts)$/.test(entry.name) ? [file] : [];
  });
}

const found = tests(folder);
if (found.length === 0) fail(`there are no tests in ${folder}.`, "A test is a file like app.test.js or app.test.ts.");
const work = fs.mkdtempSync(path.join(os.tmpdir(), "windlass-test-"));
let status = 1;
try {
  const esbuild = tool("esbuild");
  await esbuild.build({ ...bundleOptions(folder), entryPoints: found, outdir: work, outExtension: { ".js": ".mjs" }, platform: "node", sourcemap: "inline", logLevel: "error" });
  const built = fs.readdirSync(work, { recursive: true }).map(String).filter((name) => name.endsWith(".mjs"));
  const ran = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...(process.stdout.isTTY ? [] : ["--test-reporter=spec"]), ...built.map((name) => path.join(work, name))], { stdio: "inherit" });
  status = ran.status ?? 1;
} finally {
  fs.rmSync(work, { recursive: true });
}
process.exit(status);
