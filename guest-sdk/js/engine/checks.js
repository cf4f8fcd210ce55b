// What is said of a plugin's modules and errors, in the component and by build.mjs alike. Needs nothing of either.

/** How a frame of a plugin that was built looks: its bundle is the engine's own file. */
const FRAME = /^\s*at (.*) \(componentize-qjs:user\.js:(\d+):(\d+)/;

/** Called when the plugin's modules have run. */
export function check(registered) {
  if (registered.size === 0) throw new Error('no handler: call handler("queue", …) with the function that does the work');
}

/** The frames that are the plugin's, by the names of its own files: `lines` says where each line of the bundle is from. */
export function ownFrames(error, lines = [], frame = FRAME) {
  const own = String(error?.stack ?? "").split("\n").map((text) => {
    const [, where, line, at] = frame.exec(text) ?? [];
    const run = lines.findLast(([first, count, , , column = 0]) => line >= first && line < first + count && at >= column);
    return run === undefined ? "" : `\n    at ${where || "<module>"} (${run[2]}:${Number(line) - run[0] + run[3]})`;
  });
  return own.join("");
}
