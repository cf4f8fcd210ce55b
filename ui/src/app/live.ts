// What the server tells by itself: queues, slots, workers and watched jobs, as signals. Paused, they stay as they are.
import { batch, computed, effect, signal } from '@preact/signals';
import { namespace } from '../api/client';
import { connect, type Stream } from '../stream/connect';
import { empty, type Pulse, type Watched } from '../stream/pulse';
import type { Link } from '../stream/source';
import { askWho, may, session, who } from './session';

export const link = signal<Link>('connecting');
export const linkWhy = signal('');
/** The connection was lost, and is there again: shown for a moment. */
export const back = signal(false);
export const paused = signal(false);

const shown = signal<Pulse>(empty());
let newest: Pulse = shown.value;

export const pulse = computed(() => shown.value);
/** Whether anything has arrived: before, an empty list of queues means nothing. */
export const known = computed(() => shown.value.at !== '');
export const queues = computed(() => shown.value.queues);
export const totals = computed(() => shown.value.totals);
export const rates = computed(() => shown.value.rates);
export const slots = computed(() => shown.value.slots);
export const canaries = computed(() => shown.value.canaries);
export const workers = computed(() => shown.value.workers);
export const bulks = computed(() => shown.value.bulk);
export const serverPaused = computed(() => shown.value.paused_since);
export const trouble = computed(() => shown.value.trouble);

/** Grows with each change of what is shown; lists are read again when it does. */
export const beat = signal(0);
/** Grows each time the connection is there again: whatever was read before may be old. */
export const reconnected = signal(0);

const ASK_MS = 2000;
let stream: Stream | null = null;
const watching = new Map<string, number>();

function publish() {
    if (shown.peek() === newest) return;
    batch(() => {
        shown.value = newest;
        beat.value += 1;
    });
}

export function pause(on: boolean) {
    paused.value = on;
    if (!on) publish();
}

/** Tells the state of a job until the returned function is called. */
export function watchJob(id: string): () => void {
    watching.set(id, (watching.get(id) ?? 0) + 1);
    stream?.watch([...watching.keys()]);
    return () => {
        const left = (watching.get(id) ?? 1) - 1;
        if (left > 0) watching.set(id, left);
        else watching.delete(id);
        stream?.watch([...watching.keys()]);
    };
}

export const watched = (id: string): Watched | undefined => shown.value.jobs[id];
export const tryAgain = () => stream?.again();

function onLink(state: Link, why: string) {
    const before = link.peek();
    batch(() => {
        link.value = state;
        linkWhy.value = why;
        if (state === 'live' && before === 'lost') {
            back.value = true;
            reconnected.value += 1;
            setTimeout(() => (back.value = false), 4000);
        }
    });
    if (state === 'signed-out' && who.peek().is === 'somebody') void askWho();
}

/** Starts when somebody is signed in, and begins anew in another namespace. */
export function startLive() {
    effect(() => {
        const of = namespace.value;
        if (!session.value) {
            stream?.bye();
            return;
        }
        if (!may('read')) {
            // The pulse tells of all queues, which not every role may see. Such a page asks from time to time.
            stream?.bye();
            const timer = setInterval(() => document.hidden || paused.peek() || (beat.value += 1), ASK_MS);
            return () => clearInterval(timer);
        }
        newest = empty();
        shown.value = newest;
        stream ??= connect({
            pulse(state) {
                newest = state;
                if (!paused.peek()) publish();
            },
            link: onLink,
        });
        stream.join(of, [...watching.keys()]);
    });
    addEventListener('pagehide', () => stream?.bye());
    // A page that the browser kept and shows again.
    addEventListener('pageshow', (event) => {
        if (event.persisted && session.peek()) stream?.join(namespace.peek(), [...watching.keys()]);
    });
    addEventListener('online', () => stream?.again());
}
