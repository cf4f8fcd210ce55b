// Makes a component of a plugin folder.
//
// usage: build.mjs FOLDER OUT.wasm
//
// WINDLASS_TOOLS is a folder with tools/package.json installed (`npm install` there). `windlass plugin build` and plugins/build.sh see to
// that. WINDLASS_BUILD_ENTRY is the plugin's file; unless set, app.ts or app.js. WINDLASS_BUILD_HTTP=1 lets it send HTTP requests.
//
// The steps: check the types (TypeScript), bundle, compile into QuickJS with a snapshot taken after the plugin's modules have run,
// and give the system imports their real name (see engine/system.wit).

import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { bundleOptions, fail, sdk, tool } from "./tools/find.mjs";

const SYSTEM_PACKAGES = ["io", "clocks", "random", "http"];

async function main() {
  const [folderGiven, outGiven] = process.argv.slice(2);
  if (outGiven === undefined) fail("usage: build.mjs FOLDER OUT.wasm");
  const folder = path.resolve(folderGiven);
  const out = path.resolve(outGiven);
  const entry = findEntry(folder);
  const http = process.env.WINDLASS_BUILD_HTTP === "1";

  checkTypes(folder, entry);
  const source = await bundle(folder, entry, http);
  const work = fs.mkdtempSync(path.join(os.tmpdir(), "windlass-js-"));
  try {
    const component = await compile(source, gatherWit(work), http, entry);
    fs.mkdirSync(path.dirname(out), { recursive: true });
    // Written beside and moved, so that nobody reads half of it.
    fs.writeFileSync(`${out}.part`, renameImports(component));
    fs.renameSync(`${out}.part`, out);
  } finally {
    fs.rmSync(work, { recursive: true });
  }
}

function findEntry(folder) {
  const names = process.env.WINDLASS_BUILD_ENTRY ? [process.env.WINDLASS_BUILD_ENTRY] : ["app.ts", "app.js"];
  const found = names.map((name) => path.join(folder, name)).find((file) => fs.existsSync(file));
  return found ?? fail(`there is no ${names.join(" or ")} in ${folder}.`, 'Name the plugin\'s file in windlass.toml: entry = "app.ts" under [build]');
}

/** Only the TypeScript of the plugin, by its own tsconfig.json if it has one. */
function checkTypes(folder, entry) {
  if (!entry.endsWith(".ts")) return;
  const own = fs.existsSync(path.join(folder, "tsconfig.json"));
  const how = own
    ? ["--project", folder]
    : ["--strict", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler", "--skipLibCheck", entry];
  const checked = spawnSync(process.execPath, [tool("typescript", "bin/tsc"), "--noEmit", ...how], { cwd: folder, encoding: "utf8" });
  if (checked.status !== 0) fail(`${path.basename(entry)} has type errors:`, ...`${checked.stdout}${checked.stderr}`.trimEnd().split("\n"));
}

async function bundle(folder, entry, http) {
  const esbuild = tool("esbuild");
  const parts = [
    `import ${quote(sdk("engine/globals.js"))};`,
    http ? `import ${quote(sdk("engine/fetch.js"))};` : "",
    `import ${quote(entry)};`,
    `import { ready, run } from ${quote(sdk("engine/run.js"))};`,
    "ready();",
    "export { run };",
  ];
  try {
    const { outputFiles, warnings } = await esbuild.build({
      ...bundleOptions(folder),
      stdin: { contents: parts.join("\n"), resolveDir: folder, sourcefile: "component.js" },
      platform: "neutral",
      mainFields: ["module", "main"],
      conditions: ["import", "default"],
      target: "es2022",
      external: ["windlass:job/*", "host:*"],
      // The engine runs its own promises too late (see engine/promise.js), so async functions are built on ours.
      supported: { "async-await": false, "async-generator": false, "for-await": false, "top-level-await": false },
      charset: "utf8",
      outdir: folder,
      sourcemap: "external",
      sourcesContent: false,
      write: false,
    });
    for (const warning of warnings) console.error(`warning: ${warning.text}`);
    const [map, code] = ["map", "js"].map((kind) => outputFiles.find((file) => file.path.endsWith(`.${kind}`)).text);
    const isOurs = (source) => [sdk("engine"), sdk("src")].some((place) => path.resolve(folder, source).startsWith(place));
    return `${code}globalThis.windlassLines = ${JSON.stringify(originOfLines(JSON.parse(map), isOurs))};\n`;
  } catch (error) {
    const messages = await esbuild.formatMessages(error.errors ?? [{ text: String(error) }], { kind: "error" });
    return fail(`${path.basename(entry)} cannot be bundled:`, ...messages.join("").trimEnd().split("\n"));
  }
}

/** Where the lines of the bundle are from, for stack traces: [first line, count, file, first line there] for each run of lines that
 * lie in the same order in a file of the plugin. */
export function originOfLines({ mappings, sources }, isOurs) {
  const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const runs = [];
  let source = 0;
  let line = 0;
  mappings.split(";").forEach((segments, i) => {
    segments.split(",").forEach((segment, k) => {
      // Numbers in base 64, lowest bits first, the sign in the lowest: column, file, line, column there; each is the step from the last.
      const steps = [];
      let value = 0;
      let shift = 0;
      for (const digit of segment) {
        const bits = DIGITS.indexOf(digit);
        value += (bits & 31) << shift;
        shift += 5;
        if (bits & 32) continue;
        steps.push(value & 1 ? -(value >> 1) : value >> 1);
        value = shift = 0;
      }
      if (steps.length < 4) return;
      source += steps[1];
      line += steps[2];
      if (k > 0 || isOurs(sources[source])) return;
      const last = runs.at(-1);
      if (last && last[2] === sources[source] && last[0] + last[1] === i + 1 && last[3] + last[1] === line + 1) last[1] += 1;
      else runs.push([i + 1, 1, sources[source], line + 1]);
    });
  });
  return runs;
}

/** The handler's interface, and what the engine itself imports. */
function gatherWit(work) {
  const job = ["wit/deps/job/job.wit", "../wit/deps/job/job.wit"].map(sdk).find((file) => fs.existsSync(file));
  if (job === undefined) fail(`the interface is missing: there is no ${sdk("wit/deps/job/job.wit")}.`, "Copy the SDK anew: windlass plugin new makes a whole one.");
  fs.mkdirSync(path.join(work, "wit/deps/job"), { recursive: true });
  fs.copyFileSync(job, path.join(work, "wit/deps/job/job.wit"));
  fs.copyFileSync(sdk("engine/system.wit"), path.join(work, "wit/system.wit"));
  return path.join(work, "wit");
}

async function compile(jsSource, witPath, http, entry) {
  const { componentize } = tool("componentize-qjs");
  try {
    const { component } = await componentize({ witPath, jsSource, world: http ? "http" : "plain", sync: true });
    return component;
  } catch (error) {
    return fail(`${path.basename(entry)} does not become a component:`, ...told(String(error.message ?? error)));
  }
}

/** Of what the tool says, the part about the plugin: without the frames of the machine. */
function told(message) {
  const [words] = message.split(/\n?error while executing at wasm backtrace/);
  const lines = words.replace(/^[:\s]*(Failed to [^:]*: )*/, "").trimEnd().split("\n");
  return lines[0] === "" ? message.trimEnd().split("\n") : lines;
}

/** Turns `host:` into `wasi:` in the names of the component's own imports. Both have four letters, so nothing else moves. */
export function renameImports(component) {
  const IMPORTS = 10;
  const bytes = Buffer.from(component);
  const number = (at) => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++];
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return [value, at];
    }
  };
  // After the eight bytes that say what it is, a component is a list of sections: kind, size, content.
  for (let at = 8; at < bytes.length; ) {
    const kind = bytes[at];
    const [size, start] = number(at + 1);
    if (kind === IMPORTS) {
      const section = bytes.subarray(start, start + size);
      for (const name of SYSTEM_PACKAGES.map((each) => `host:${each}/`)) {
        for (let found = section.indexOf(name); found >= 0; found = section.indexOf(name, found + 1)) section.write("wasi", found);
      }
    }
    at = start + size;
  }
  return bytes;
}

function quote(text) {
  return JSON.stringify(text);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
