// One connection to the server's pulse, kept up for as long as somebody listens. Runs in the shared worker, or in the page where a
// browser has none; it knows nothing of either.
import { readEvents } from './sse';
import { apply, empty, type Pulse, type PulseMessage } from './pulse';

export type Link = 'connecting' | 'live' | 'lost' | 'signed-out';

export interface Listener {
    pulse(state: Pulse, message: PulseMessage): void;
    link(state: Link, why: string): void;
}

/** How long nothing may arrive: the server sends a comment every 15 s. */
const SILENCE_MS = 40_000;
const RETRY_MS = [200, 500, 1000];
/** Several jobs are watched in one go, such as those of a page that opens. */
const SETTLE_MS = 60;

export class Source {
    private known: Pulse = empty();
    private state: Link = 'connecting';
    private why = '';
    private jobs = '';
    private wanted = '';
    private running: AbortController | null = null;
    private failures = 0;
    private timer: ReturnType<typeof setTimeout> | undefined;
    private stopped = false;

    constructor(
        private readonly namespace: string,
        private readonly listener: Listener,
    ) {}

    start() {
        this.schedule(0);
    }

    stop() {
        this.stopped = true;
        clearTimeout(this.timer);
        this.running?.abort();
    }

    /** Watches these jobs and no others. The server is asked anew, and tells everything again. */
    watch(jobs: string[]) {
        this.wanted = [...new Set(jobs)].sort().slice(0, 50).join(',');
        if (this.wanted !== this.jobs) this.schedule(SETTLE_MS);
    }

    /** What a listener that joined late has missed. */
    now(): { pulse: Pulse; link: Link; why: string } {
        return { pulse: this.known, link: this.state, why: this.why };
    }

    /** Tries at once, because a person asked for it or came back. */
    again() {
        if (this.state !== 'live') this.schedule(0);
    }

    private schedule(delay: number) {
        clearTimeout(this.timer);
        this.timer = setTimeout(() => void this.connect(), delay);
    }

    private set(state: Link, why = '') {
        if (state === this.state && why === this.why) return;
        this.state = state;
        this.why = why;
        this.listener.link(state, why);
    }

    private async connect() {
        if (this.stopped) return;
        this.running?.abort();
        const mine = new AbortController();
        this.running = mine;
        this.jobs = this.wanted;
        let silence: ReturnType<typeof setTimeout> | undefined;
        const alive = () => {
            clearTimeout(silence);
            silence = setTimeout(() => mine.abort(), SILENCE_MS);
        };
        let why = 'the server does not answer';
        try {
            alive();
            const query = this.jobs ? `?jobs=${this.jobs}` : '';
            const headers: Record<string, string> = { accept: 'text/event-stream' };
            if (this.namespace) headers['X-Windlass-Namespace'] = this.namespace;
            const response = await fetch(`/api/v1/pulse${query}`, { headers, signal: mine.signal, cache: 'no-store' });
            if (response.status === 401) return this.set('signed-out');
            if (!response.ok || !response.body) {
                const text = await response.text();
                throw new Error(text.slice(0, 300));
            }
            this.failures = 0;
            let over = false;
            await readEvents(
                response.body,
                (event) => {
                    if (this.running !== mine) return;
                    if (event.event === 'pulse') this.take(JSON.parse(event.data) as PulseMessage);
                    if (event.event === 'ended') over = (JSON.parse(event.data) as { code: string }).code === 'SIGNED_OUT';
                },
                alive,
            );
            if (over) return this.set('signed-out');
        } catch (error) {
            if (error instanceof Error && error.message.startsWith('{')) why = (JSON.parse(error.message) as { error: string }).error;
        } finally {
            clearTimeout(silence);
        }
        // Another connection has taken over.
        if (this.stopped || this.running !== mine) return;
        this.set('lost', why);
        this.schedule(RETRY_MS[Math.min(this.failures++, RETRY_MS.length - 1)] ?? 1000);
    }

    private take(message: PulseMessage) {
        this.known = apply(this.known, message);
        this.set('live');
        this.listener.pulse(this.known, message);
    }
}
