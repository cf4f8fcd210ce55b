// Follows the stream of events and keeps a sample of it: what a person can read, and a count of the rest. However many events there are,
// little is parsed, a bounded number is kept, and the page is drawn a few times a second.
import { readEvents, refusal, send, path, type StreamEvent } from '#kit';

export interface Seen {
    /** Of this page, in order. */
    n: number;
    type: string;
    at: string;
    job: string | null;
    queue: string | null;
    /** A plugin, a schedule, a worker or a bulk operation. */
    about: string | null;
    /** The event as it came. */
    text: string;
}

export interface State {
    link: 'connecting' | 'live' | 'lost' | 'paused';
    why: string;
    /** Newest first. */
    rows: Seen[];
    /** That arrived, and passed the filter. */
    arrived: number;
    /** That arrived, and are not shown because there were too many at once. */
    left: number;
    perSecond: number;
    types: Map<string, number>;
}

/** Kept at most. */
const KEPT = 400;
/** Shown at most of those that arrive in one turn; the rest is counted. */
const PER_TURN = 40;
const TURN_MS = 250;
const AGAIN_MS = 1500;

export const start = (): State => ({ link: 'connecting', why: '', rows: [], arrived: 0, left: 0, perSecond: 0, types: new Map() });

/** Follows until the returned function is called. `fits` sees the text of an event, before it is parsed. */
export function follow(filter: Record<string, string>, fits: (text: string) => boolean, draw: (change: (before: State) => State) => void): () => void {
    let stopped = false;
    let stream: AbortController | null = null;
    let again: ReturnType<typeof setTimeout> | undefined;
    let next = 1;
    let turn = { arrived: 0, sample: [] as StreamEvent[], types: new Map<string, number>(), began: performance.now() };

    const seen = (event: StreamEvent) => {
        if (event.event === 'dropped' || event.event === 'gone') {
            draw((before) => ({ ...before, why: event.event === 'dropped' ? 'The server was faster than this page, and some events were not sent.' : before.why }));
            return;
        }
        if (!fits(event.data)) return;
        turn.arrived += 1;
        turn.types.set(event.event, (turn.types.get(event.event) ?? 0) + 1);
        // Each event of the turn has the same chance to be shown.
        if (turn.sample.length < PER_TURN) turn.sample.push(event);
        else {
            const at = Math.floor(Math.random() * turn.arrived);
            if (at < PER_TURN) turn.sample[at] = event;
        }
    };
    const flush = () => {
        const { arrived, sample, types, began } = turn;
        const seconds = (performance.now() - began) / 1000;
        turn = { arrived: 0, sample: [], types: new Map(), began: performance.now() };
        const rows = sample.map((event) => read(event, next++)).sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : b.n - a.n));
        draw((before) => {
            const rate = before.perSecond * 0.6 + (arrived / seconds) * 0.4;
            const perSecond = rate < 0.05 ? 0 : rate;
            if (arrived === 0) return perSecond === before.perSecond ? before : { ...before, perSecond };
            const all = new Map(before.types);
            for (const [type, n] of types) all.set(type, (all.get(type) ?? 0) + n);
            return { ...before, rows: [...rows, ...before.rows].slice(0, KEPT), arrived: before.arrived + arrived, left: before.left + arrived - rows.length, perSecond, types: all };
        });
    };
    const timer = setInterval(() => requestAnimationFrame(() => !stopped && flush()), TURN_MS);

    const open = async () => {
        clearTimeout(again);
        const mine = new AbortController();
        stream = mine;
        try {
            const response = await send('GET', path(['events'], filter), { signal: mine.signal });
            if (!response.ok || !response.body) throw await refusal(response);
            draw((before) => ({ ...before, link: 'live', why: '' }));
            await readEvents(response.body, seen);
            throw new Error('the server ended the stream');
        } catch (error) {
            if (stopped || mine.signal.aborted) return;
            const why = error instanceof Error ? error.message : String(error);
            draw((before) => ({ ...before, link: 'lost', why: before.why || why }));
            again = setTimeout(open, AGAIN_MS);
        }
    };
    // A tab that nobody looks at holds no connection: a browser has few for all its tabs.
    const onVisibility = () => {
        stream?.abort();
        clearTimeout(again);
        if (document.hidden) return;
        draw((before) => ({ ...before, link: 'connecting', why: before.arrived ? 'Events that came while this tab was hidden are not shown.' : '' }));
        void open();
    };
    document.addEventListener('visibilitychange', onVisibility);
    void open();
    return () => {
        stopped = true;
        stream?.abort();
        clearTimeout(again);
        clearInterval(timer);
        document.removeEventListener('visibilitychange', onVisibility);
    };
}

function read(event: StreamEvent, n: number): Seen {
    let data: Record<string, unknown> = {};
    try {
        data = JSON.parse(event.data) as Record<string, unknown>;
    } catch {
        // Shown as it came.
    }
    const text = (name: string) => (typeof data[name] === 'string' ? (data[name] as string) : null);
    return { n, type: event.event, at: text('at') ?? new Date().toISOString(), job: text('job_id'), queue: text('queue'), about: text('plugin') ?? text('schedule') ?? text('worker_id') ?? text('bulk_id'), text: event.data };
}
