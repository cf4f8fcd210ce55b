// The tab's side of the stream: joins the shared worker, or keeps a connection of its own where there is none.
import { Source, type Link } from './source';
import { HERE_MS, PROTOCOL, type FromTab, type ToTab } from './messages';
import { apply, empty, type Pulse } from './pulse';

export interface Stream {
    join(namespace: string, jobs: string[]): void;
    watch(jobs: string[]): void;
    again(): void;
    bye(): void;
}

interface Told {
    pulse(state: Pulse): void;
    link(state: Link, why: string): void;
}

/** A policy by which the browser knows that this address, and no text from elsewhere, may become a worker. */
function workerAddress(): string {
    const address = '/ui/stream.js';
    const types = (window as { trustedTypes?: { createPolicy(name: string, rules: object): { createScriptURL(text: string): string } } }).trustedTypes;
    return types ? types.createPolicy('windlass', { createScriptURL: () => address }).createScriptURL(address) : address;
}

export function connect(told: Told): Stream {
    if (typeof SharedWorker === 'undefined') return alone(told);
    const worker = new SharedWorker(workerAddress(), { name: `windlass-${PROTOCOL}` });
    const tell = (message: FromTab) => worker.port.postMessage(message);
    let known = empty();
    worker.port.onmessage = (event: MessageEvent<ToTab>) => {
        const message = event.data;
        if (message.t === 'link') told.link(message.link, message.why);
        else {
            known = message.t === 'all' ? message.pulse : apply(known, message.message);
            told.pulse(known);
        }
    };
    worker.port.start();
    setInterval(() => tell({ t: 'here' }), HERE_MS);
    return {
        join: (namespace, jobs) => tell({ t: 'join', namespace, jobs }),
        watch: (jobs) => tell({ t: 'watch', jobs }),
        again: () => tell({ t: 'again' }),
        bye: () => tell({ t: 'bye' }),
    };
}

function alone(told: Told): Stream {
    let source: Source | null = null;
    return {
        join(namespace, jobs) {
            source?.stop();
            source = new Source(namespace, { pulse: (state) => told.pulse(state), link: (state, why) => told.link(state, why) });
            source.watch(jobs);
            source.start();
        },
        watch: (jobs) => source?.watch(jobs),
        again: () => source?.again(),
        bye() {
            source?.stop();
            source = null;
        },
    };
}
