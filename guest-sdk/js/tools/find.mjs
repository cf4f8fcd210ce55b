// Where the SDK and the installed tools lie. For build.mjs and test.mjs.

import fs from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

/** A file of the SDK. */
export function sdk(name) {
  return path.join(ROOT, name);
}

/** An installed tool: its module, or the path of one of its files. */
export function tool(name, file) {
  const from = createRequire(path.join(toolsFolder(), "package.json"));
  if (file === undefined) return from(name);
  return path.join(path.dirname(from.resolve(`${name}/package.json`)), file);
}

export function toolsFolder() {
  const cache = path.join(process.env.XDG_CACHE_HOME || path.join(os.homedir(), ".cache"), "windlass");
  const kept = fs.existsSync(cache) ? fs.readdirSync(cache).filter((name) => name.startsWith("js-")) : [];
  const folders = [process.env.WINDLASS_TOOLS, ...kept.map((name) => path.join(cache, name)), sdk("tools")];
  const whole = (folder) => folder && ["componentize-qjs", "esbuild", "typescript"].every((name) => fs.existsSync(path.join(folder, "node_modules", name)));
  return (
    folders.find(whole) ??
    fail("the tools for JavaScript are not installed: esbuild, typescript and componentize-qjs.", `windlass plugin build installs them; or by hand: npm ci --ignore-scripts --prefix ${sdk("tools")}`)
  );
}

/** How a plugin is bundled, for the component and for its tests: `windlass` is this SDK, whatever is installed. */
export function bundleOptions(folder) {
  return {
    absWorkingDir: folder,
    alias: { "windlass/testing": sdk("testing.js"), windlass: sdk("index.js") },
    bundle: true,
    format: "esm",
    logLevel: "silent",
  };
}

/** Says what is wrong and what would be right, and ends. */
export function fail(what, ...more) {
  process.stderr.write([`error: ${what}`, ...more.map((line) => `       ${line}`), ""].join("\n"));
  process.exit(1);
}
