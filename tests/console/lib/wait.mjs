// Waiting for something to become true: tests ask again and again until a deadline, and never sleep for a fixed time.

/** Generous, because the machine may be busy with other things; what works takes a small part of it. */
export const DEADLINE_MS = 60_000;
const STEP_MS = 40;

/** What `probe` gives, once it gives anything but null, undefined or false. What it throws meanwhile is told if it never does. */
export async function eventually(what, probe, within = DEADLINE_MS) {
    const until = Date.now() + within;
    let last;
    for (;;) {
        try {
            const found = await probe();
            if (found !== null && found !== undefined && found !== false) return found;
            last = undefined;
        } catch (error) {
            last = error;
        }
        if (Date.now() > until) throw new Error(`not within ${within / 1000} s: ${what}${last ? ` (${last.message})` : ''}`, { cause: last });
        await new Promise((done) => setTimeout(done, STEP_MS));
    }
}
