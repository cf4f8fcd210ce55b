// The runtime of `windlass dev`: a component without a plugin in it. The plugin's bundle comes from the server with each version, as the
// text that `build.mjs --sources` writes, and is run when an instance gets its first job.

import { read } from "windlass:dev/sources@0.1.0";

import * as sdk from "../index.js";
import { failure, ready, run as built } from "./run.js";

// What the bundle imports as `windlass`.
globalThis.windlassSdk = sdk;

/** How a frame of the plugin looks here: QuickJS gives code that is evaluated this name. */
const FRAME = /^\s*at (.*) \(<input>:(\d+):(\d+)/;

let loaded = false;
let broken = null;

export const run = {
  run(job) {
    if (!loaded) {
      loaded = true;
      try {
        load();
      } catch (error) {
        broken = failure(error);
      }
    }
    if (broken !== null) throw broken;
    return built.run(job);
  },
};

/** Runs the plugin's modules. Whatever is wrong with them is the error of the job that comes first, and of all after it. */
function load() {
  const text = read();
  if (text === undefined || text === null) {
    throw new Error("this is the runtime of `windlass dev`, and no sources came with it; build the plugin: windlass plugin push");
  }
  const { code, lines } = JSON.parse(text);
  globalThis.windlassLines = lines;
  globalThis.windlassFrame = FRAME;
  // In the global scope, and not in this module's.
  (0, eval)(code);
  ready();
}
