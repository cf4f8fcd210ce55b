// The shared worker: one connection per namespace for all tabs. A browser opens about six connections to a server, and each tab with a
// stream of its own would take one.
import { Source } from './source';
import { GONE_MS, HERE_MS, type FromTab, type ToTab } from './messages';

interface Tab {
    port: MessagePort;
    namespace: string | null;
    jobs: string[];
    seen: number;
}

const tabs = new Set<Tab>();
const sources = new Map<string, Source>();

const of = (namespace: string) => [...tabs].filter((tab) => tab.namespace === namespace);
const tell = (tab: Tab, message: ToTab) => tab.port.postMessage(message);

function sourceOf(namespace: string): Source {
    const known = sources.get(namespace);
    if (known) return known;
    const source = new Source(namespace, {
        pulse: (_, message) => of(namespace).forEach((tab) => tell(tab, { t: 'pulse', message })),
        link: (link, why) => of(namespace).forEach((tab) => tell(tab, { t: 'link', link, why })),
    });
    sources.set(namespace, source);
    return source;
}

/** Starts, changes and stops the source of a namespace, as its tabs need it. */
function settle(namespace: string) {
    const listening = of(namespace);
    if (listening.length === 0) {
        sources.get(namespace)?.stop();
        sources.delete(namespace);
        return;
    }
    const isNew = !sources.has(namespace);
    const source = sourceOf(namespace);
    source.watch(listening.flatMap((tab) => tab.jobs));
    if (isNew) source.start();
}

function leave(tab: Tab) {
    tabs.delete(tab);
    if (tab.namespace !== null) settle(tab.namespace);
}

function take(tab: Tab, message: FromTab) {
    tab.seen = Date.now();
    switch (message.t) {
        case 'join': {
            const before = tab.namespace;
            tab.namespace = message.namespace;
            tab.jobs = message.jobs;
            tabs.add(tab);
            if (before !== null && before !== message.namespace) settle(before);
            settle(message.namespace);
            const { pulse, link, why } = sourceOf(message.namespace).now();
            if (pulse.at) tell(tab, { t: 'all', pulse });
            tell(tab, { t: 'link', link, why });
            // Somebody has signed in, perhaps.
            if (link !== 'live') sourceOf(message.namespace).again();
            return;
        }
        case 'watch':
            tab.jobs = message.jobs;
            if (tab.namespace !== null) settle(tab.namespace);
            return;
        case 'again':
            if (tab.namespace !== null) sourceOf(tab.namespace).again();
            return;
        case 'here':
            return;
        case 'bye':
            leave(tab);
    }
}

(self as unknown as { onconnect: (event: MessageEvent) => void }).onconnect = (event) => {
    const port = event.ports[0];
    if (!port) return;
    const tab: Tab = { port, namespace: null, jobs: [], seen: Date.now() };
    port.onmessage = (message: MessageEvent<FromTab>) => take(tab, message.data);
    port.start();
};

setInterval(() => {
    for (const tab of [...tabs]) if (Date.now() - tab.seen > GONE_MS) leave(tab);
}, HERE_MS);
