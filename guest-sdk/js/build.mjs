// Makes a component of a plugin folder.
//
// usage: build.mjs FOLDER OUT.wasm               the plugin as a component
//        build.mjs --runtime FOLDER OUT.wasm     the component that `windlass dev` runs its sources in
//        build.mjs --sources FOLDER OUT.json     those sources; checked, unless WINDLASS_BUILD_CHECK=0
//
// WINDLASS_TOOLS is a folder with tools/package.json installed (`npm ci --ignore-scripts` there). `windlass plugin build` and plugins/build.sh see to
// that. WINDLASS_BUILD_ENTRY is the plugin's file; unless set, app.ts or app.js. WINDLASS_BUILD_HTTP=1 lets it send HTTP requests.
//
// The steps: check the types (TypeScript), bundle, compile into QuickJS with a snapshot taken after the plugin's modules have run,
// and give the system imports their real name (see engine/system.wit).

import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import vm from "node:vm";

import { bundleOptions, fail, sdk, tool, toolsFolder } from "./tools/find.mjs";
import { patch, restore } from "./tools/still.mjs";

const SYSTEM_PACKAGES = ["io", "clocks", "random", "http"];

async function main() {
  const given = process.argv.slice(2);
  const kind = ["--runtime", "--sources"].includes(given[0]) ? given.shift() : null;
  if (given.length !== 2) fail("usage: build.mjs [--runtime | --sources] FOLDER OUT");
  const [folder, out] = given.map((name) => path.resolve(name));
  const http = process.env.WINDLASS_BUILD_HTTP === "1";
  if (kind === "--runtime") return write(out, await compile(await bundleRuntime(folder, http), http, kind, "the runtime for `windlass dev`"));
  const entry = findEntry(folder);
  const checked = process.env.WINDLASS_BUILD_CHECK !== "0";
  if (kind === null || checked) checkTypes(folder, entry);
  if (kind === null) return write(out, await compile(await bundlePlugin(folder, entry, http), http, kind, path.basename(entry)));
  const sources = await bundleSources(folder, entry);
  if (checked) await tryOut(sources, entry);
  write(out, JSON.stringify(sources));
}

/** Written beside and moved, so that nobody reads half of it. */
function write(out, content) {
  fs.mkdirSync(path.dirname(out), { recursive: true });
  fs.writeFileSync(`${out}.part`, content);
  fs.renameSync(`${out}.part`, out);
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

/** The plugin, with the engine around it. */
async function bundlePlugin(folder, entry, http) {
  const parts = [...engine(http), `import ${quote(entry)};`, `import { ready, run } from ${quote(sdk("engine/run.js"))};`, "ready();", "export { run };"];
  const { code, lines } = await bundle(folder, parts, path.basename(entry));
  return `${code}globalThis.windlassLines = ${JSON.stringify(lines)};\n`;
}

/** The engine alone. */
async function bundleRuntime(folder, http) {
  const parts = [...engine(http), `export { run } from ${quote(sdk("engine/dev.js"))};`];
  return (await bundle(folder, parts, "the runtime")).code;
}

/** The plugin alone: the engine is there, and gives it the SDK. */
async function bundleSources(folder, entry) {
  const given = {
    name: "windlass",
    setup(build) {
      build.onResolve({ filter: /^windlass$/ }, () => ({ path: "windlass", namespace: "windlass" }));
      build.onLoad({ filter: /.*/, namespace: "windlass" }, () => ({ contents: "module.exports = globalThis.windlassSdk;", loader: "js" }));
    },
  };
  const { alias, ...options } = bundleOptions(folder);
  delete alias.windlass;
  return bundle(folder, [`import ${quote(entry)};`], path.basename(entry), { ...options, alias, format: "iife", plugins: [given] });
}

function engine(http) {
  return [`import ${quote(sdk("engine/globals.js"))};`, http ? `import ${quote(sdk("engine/fetch.js"))};` : ""];
}

/** The code of a bundle, and where its lines are from. */
async function bundle(folder, parts, what, options = { ...bundleOptions(folder), alias: {}, plugins: [named] }) {
  const esbuild = tool("esbuild");
  try {
    const { outputFiles, warnings } = await esbuild.build({
      ...options,
      stdin: { contents: parts.join("\n"), resolveDir: folder, sourcefile: "component.js" },
      platform: "neutral",
      mainFields: ["module", "main"],
      conditions: ["import", "default"],
      target: "es2022",
      external: ["windlass:job/*", "windlass:dev/*", "host:*"],
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
    const isOurs = (source) => source.startsWith("windlass:");
    return { code, lines: originOfLines(JSON.parse(map), isOurs) };
  } catch (error) {
    const messages = await esbuild.formatMessages(error.errors ?? [{ text: String(error) }], { kind: "error" });
    return fail(`${what} cannot be bundled:`, ...messages.join("").trimEnd().split("\n"));
  }
}

/** Names the SDK's files by their place in the SDK: the bundler writes names into its output, and where the SDK lies is nobody's concern. */
const named = {
  name: "sdk",
  setup(build) {
    const ours = (file) => ({ path: path.relative(sdk("."), file), namespace: "windlass" });
    build.onResolve({ filter: /^windlass(\/testing)?$/ }, ({ path: name }) => ours(sdk(name === "windlass" ? "index.js" : "testing.js")));
    build.onResolve({ filter: /^\.\.?\// }, ({ path: name, importer, namespace }) => (namespace === "windlass" ? ours(path.resolve(path.dirname(sdk(importer)), name)) : undefined));
    build.onResolve({ filter: /.*/ }, ({ path: name }) => (path.isAbsolute(name) && name.startsWith(sdk(".") + path.sep) ? ours(name) : undefined));
    build.onLoad({ filter: /.*/, namespace: "windlass" }, ({ path: name }) => ({ contents: fs.readFileSync(sdk(name), "utf8"), loader: "js" }));
  },
};

/** Runs the plugin's modules in this Node: what is wrong with them is said before they take the place of what works. */
async function tryOut({ code, lines }, entry) {
  const given = await import(pathToFileURL(sdk("index.js")));
  const { registered } = await import(pathToFileURL(sdk("src/handlers.js")));
  const { check, ownFrames } = await import(pathToFileURL(sdk("engine/checks.js")));
  globalThis.windlassSdk = given;
  try {
    vm.runInThisContext(code, { filename: "bundle.js", timeout: 10_000 });
    check(registered);
  } catch (error) {
    const frames = ownFrames(error, lines, /^\s*at (?:(.*) \()?bundle\.js:(\d+):(\d+)/);
    fail(`${path.basename(entry)} cannot be loaded:`, ...`${error}${frames}`.split("\n"), `(by Node ${process.versions.node}. \`windlass dev --no-check\` leaves this check out)`);
  }
}

/** Where the lines of the bundle are from, for stack traces: [first line, count, file, first line there] for each run of lines that
 * lie in the same order in a file of the plugin. Where the bundler has put several lines into one, [line, 1, file, line there, column]
 * for what begins at that column, counted from 1. */
export function originOfLines({ mappings, sources }, isOurs) {
  const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const runs = [];
  let source = 0;
  let line = 0;
  mappings.split(";").forEach((segments, i) => {
    let column = 0;
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
      column += steps[0] ?? 0;
      if (steps.length < 4) return;
      source += steps[1];
      line += steps[2];
      if (isOurs(sources[source])) return;
      const last = runs.at(-1);
      if (k > 0) {
        const covered = last && last[2] === sources[source] && i + 1 - last[0] + last[3] === line + 1;
        if (!covered) runs.push([i + 1, 1, sources[source], line + 1, column + 1]);
        return;
      }
      if (last && last[4] === undefined && last[2] === sources[source] && last[0] + last[1] === i + 1 && last[3] + last[1] === line + 1) last[1] += 1;
      else runs.push([i + 1, 1, sources[source], line + 1]);
    });
  });
  return runs;
}

/** The handler's interface, and what the engine itself imports. */
function gatherWit(work) {
  for (const name of ["job/job.wit", "dev/dev.wit"]) {
    const found = ["wit/deps", "../wit/deps"].map((place) => sdk(path.join(place, name))).find((file) => fs.existsSync(file));
    if (found === undefined) fail(`the interface is missing: there is no ${sdk(`wit/deps/${name}`)}.`, "Copy the SDK anew: windlass plugin new makes a whole one.");
    fs.mkdirSync(path.join(work, "wit/deps", path.dirname(name)), { recursive: true });
    fs.copyFileSync(found, path.join(work, "wit/deps", name));
  }
  fs.copyFileSync(sdk("engine/system.wit"), path.join(work, "wit/system.wit"));
  return path.join(work, "wit");
}

async function compile(jsSource, http, kind, what) {
  const { componentize } = tool("componentize-qjs");
  const work = fs.mkdtempSync(path.join(os.tmpdir(), "windlass-js-"));
  const world = `${http ? "http" : "plain"}${kind === "--runtime" ? "-runtime" : ""}`;
  try {
    const engine = patch(path.join(toolsFolder(), "node_modules"));
    if (engine === null) console.error("warning: this version of componentize-qjs is not known; the same source may give another component each time");
    const { component } = await componentize({ witPath: gatherWit(work), jsSource, world, ...(engine ? { runtimeBytes: engine } : { sync: true }) });
    return renameImports(engine ? restore(component, engine) : component);
  } catch (error) {
    return fail(`${what} does not become a component:`, ...told(String(error.message ?? error)));
  } finally {
    fs.rmSync(work, { recursive: true });
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
