// The event loop: promises' reactions, timers, and what the host has to make ready. A component's `run` is one plain call, so
// the loop turns inside of it until the handler's promise is settled.

import { poll } from "host:io/poll@0.2.6";
import { subscribeDuration } from "host:clocks/monotonic-clock@0.2.6";

/** Whether a job runs. While the snapshot is taken there is no host to ask. */
export let running = false;

let tasks = [];
let timers = [];
let waiting = [];
let lastTimer = 0;

/** Runs a function after what is running now, before anything else. */
export function soon(task) {
  tasks.push(task);
}

export function startTimer(callback, delay, every) {
  const timer = { id: ++lastTimer, due: Date.now() + Math.max(0, Number(delay) || 0), callback, every };
  timers.push(timer);
  return timer.id;
}

export function stopTimer(id) {
  timers = timers.filter((timer) => timer.id !== id);
}

/** A promise for the host's word that something is ready, unless the signal gives up first. It takes the pollable, and drops it
 * before the promise is settled: what it came from can only be dropped after it. */
export function until(pollable, signal) {
  return new Promise((resolve, reject) => {
    const giveUp = () => {
      waiting = waiting.filter((each) => each !== entry);
      pollable[Symbol.dispose]();
      reject(signal.reason);
    };
    const wake = () => {
      signal?.removeEventListener("abort", giveUp);
      resolve();
    };
    const entry = { pollable, wake };
    waiting.push(entry);
    if (signal?.aborted) giveUp();
    else signal?.addEventListener("abort", giveUp);
  });
}

/** Called at the start of each job: forgets what an earlier one left behind. */
export function reset() {
  running = true;
  for (const { pollable } of waiting) pollable[Symbol.dispose]();
  tasks = [];
  timers = [];
  waiting = [];
}

/** Turns until `settled()` says so. */
export function turn(settled) {
  for (;;) {
    // Tasks add tasks, so the list is taken whole, again and again.
    while (tasks.length > 0) {
      const now = tasks;
      tasks = [];
      for (const task of now) task();
    }
    if (settled()) return;
    if (timers.length === 0 && waiting.length === 0) {
      throw new Error("the handler waits for a promise that nothing will settle");
    }
    wait();
    fire();
  }
}

/** Blocks until the next timer is due or the host has something ready. */
function wait() {
  const next = Math.min(...timers.map((timer) => timer.due)) - Date.now();
  if (next <= 0 && waiting.length === 0) return;
  const clock = next === Infinity ? null : subscribeDuration(Math.ceil(Math.max(0, next) * 1e6));
  const pollables = waiting.map((entry) => entry.pollable);
  if (clock !== null) pollables.push(clock);
  const ready = new Set(poll(pollables));
  clock?.[Symbol.dispose]();
  const before = waiting;
  waiting = before.filter((_, i) => !ready.has(i));
  before.forEach((entry, i) => {
    if (!ready.has(i)) return;
    entry.pollable[Symbol.dispose]();
    entry.wake();
  });
}

function fire() {
  const now = Date.now();
  const due = timers.filter((timer) => timer.due <= now).sort((a, b) => a.due - b.due || a.id - b.id);
  for (const timer of due) {
    if (timer.every === undefined) stopTimer(timer.id);
    else timer.due = now + Math.max(1, timer.every);
    soon(timer.callback);
  }
}
