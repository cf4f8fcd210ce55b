// The server: what runs, its limits, its storage and its connections; and what a person prefers in this browser.
import type { ComponentChildren } from 'preact';
import {
    ActionButton, bytes, count, Facts, Failed, get, href, live, Loading, Meter, now, PageHead, Panel, percent, query, session, span, StatePill, Tabs, theme, Time, times, usePaletteEntries, useResource, act, may, type Action,
} from '#kit';

interface System {
    version: string;
    started_at: string;
    uptime_ms: number;
    node: string;
    mode: string;
    paused_since: string | null;
    trouble: string | null;
    durability: string;
    data: { dir: string; store_bytes: number; journal_bytes: number; blobs_bytes: number; compiled_bytes: number; free_bytes: number; size_bytes: number } | null;
    memory: { resident_bytes: number; buffered_bodies_bytes: number; buffered_bodies_limit_bytes: number } | null;
    processors: number;
    slots: { total: number; busy: number; by_plugin: Record<string, number> };
    connections: { open: number; limit: number } | null;
    watchers: number;
    commits: { count: number; p50_ms: number | null; p99_ms: number | null; bytes: number; writes: number };
    limits: Record<string, number>;
    /** Flags, such as whether secrets are encrypted. */
    [more: string]: unknown;
}

const TABS = [
    { key: '', title: 'Server' },
    { key: 'you', title: 'You' },
];

const pausing = (paused: boolean): Action => ({
    label: paused ? 'Resume the server' : 'Pause the server',
    does: paused
        ? 'Everything goes on: jobs start, and what came due meanwhile happens now.'
        : 'Nothing starts until it is resumed, in all namespaces, also after a restart: no job, no schedule, no webhook, and nothing is removed by its age. What runs goes on to its end, and jobs can be enqueued.',
    done: paused ? 'The server is resumed' : 'The server is paused',
    needs: 'administer-server',
    method: 'POST',
    path: paused ? '/resume' : '/pause',
    command: [paused ? 'resume' : 'pause'],
    ask: true,
});

export default function Settings() {
    const tab = query.value.get('tab') ?? '';
    const action = pausing(live.serverPaused.value !== null);
    usePaletteEntries(may(action.needs) ? [{ text: action.label, kind: 'action', run: () => act(action) }] : [], [action.label]);
    return (
        <>
            <PageHead title={tab === 'you' ? 'You' : 'Server'} />
            <Tabs label="Settings" tabs={TABS} current={tab} href={(tab) => href('/settings', { tab })} />
            {tab === 'you' ? <You /> : <Server />}
        </>
    );
}

function Server() {
    const found = useResource('system', (signal) => get<System>('/system', signal), { everyMs: 2000 });
    if (!found.data) return found.error ? <Panel label="Server"><Failed error={found.error} retry={found.reload} /></Panel> : <Loading rows={8} />;
    const system = found.data;
    const paused = system.paused_since ?? live.serverPaused.value;
    return (
        <>
            {system.trouble && (
                <Panel title="Trouble">
                    <p class="wrong-line" role="alert">{system.trouble}</p>
                </Panel>
            )}
            <div class="columns">
                <Panel title="What runs" aside={paused ? <StatePill of="retrying">paused</StatePill> : <StatePill of="completed">running</StatePill>}>
                    <Facts
                        of={[
                            ['Version', system.version],
                            ['Node', `${system.node}${system.mode === 'single' ? '' : `, ${system.mode}`}`],
                            ['Started', <Time at={system.started_at} />],
                            ['Up for', span(now.value - Date.parse(system.started_at))],
                            ['Processors', count(system.processors)],
                            paused && ['Paused', <Time at={paused} />],
                            ['API', <a href="/docs">every route</a>],
                        ]}
                    />
                    <p class="settings-act">
                        <ActionButton action={pausing(paused !== null)} after={found.reload} />
                    </p>
                </Panel>
                <Panel title="Slots" aside={`${count(system.slots.busy)} of ${count(system.slots.total)} busy`}>
                    <Meter value={system.slots.busy} of={system.slots.total} label="busy slots" wide />
                    <Facts of={[...Object.entries(system.slots.by_plugin).map(([name, n]): [string, ComponentChildren] => [name, count(n)]), ['Free', count(system.slots.total - system.slots.busy)]]} />
                </Panel>
                <Storage system={system} />
                <Panel title="Memory and connections">
                    <Facts
                        of={[
                            system.memory && ['Memory', bytes(system.memory.resident_bytes)],
                            system.memory && ['Bodies held', <Full value={system.memory.buffered_bodies_bytes} of={system.memory.buffered_bodies_limit_bytes} text={bytes} label="memory for bodies of requests" />],
                            system.connections && ['Connections', <Full value={system.connections.open} of={system.connections.limit} text={count} label="open connections" />],
                            ['Live streams', count(system.watchers)],
                        ]}
                    />
                    {!system.memory && <p class="dim">More of it shows to those who administer the server.</p>}
                </Panel>
                <Panel title="Commits" aside="since the start">
                    <Facts
                        of={[
                            ['Commits', count(system.commits.count)],
                            ['Half take at most', system.commits.p50_ms === null ? '–' : fine(system.commits.p50_ms)],
                            ['99 % at most', system.commits.p99_ms === null ? '–' : fine(system.commits.p99_ms)],
                            ['Rows written', count(system.commits.writes)],
                            ['Written', bytes(system.commits.bytes)],
                            ['Durability', system.durability === 'fsync' ? 'on the disk with each commit' : 'left to the operating system'],
                        ]}
                    />
                </Panel>
                <Panel title="Limits">
                    <Facts of={Object.entries(system.limits).map(([name, value]): [string, ComponentChildren] => [said(name), name.endsWith('_bytes') ? bytes(value) : name.endsWith('_percent') ? `${value} %` : count(value)])} />
                </Panel>
                <Panel title="Protection">
                    <Facts of={flags(system)} />
                </Panel>
            </div>
        </>
    );
}

/** Commits take less than a millisecond, and that part matters. */
const fine = (ms: number) => (ms < 10 ? `${ms.toFixed(1)} ms` : span(ms));
/** `max_body_bytes` → `max body`. */
const said = (name: string) => name.replace(/_(bytes|percent|ms)$/, '').replaceAll('_', ' ');
const flags = (system: System) =>
    Object.entries(system)
        .filter((entry): entry is [string, boolean] => typeof entry[1] === 'boolean')
        .map(([name, on]): [string, ComponentChildren] => [name === 'tls' ? 'TLS' : said(name), on ? 'yes' : 'no']);

const Full = ({ value, of, text, label }: { value: number; of: number; text(n: number): string; label: string }) => (
    <span class="gauge">
        <Meter value={value} of={of} label={label} state={percent(value, of) > 85 ? 'dead' : 'active'} /> {text(value)} of {text(of)}
    </span>
);

function Storage({ system }: { system: System }) {
    const { data } = system;
    if (!data) return null;
    const used = data.size_bytes - data.free_bytes;
    const part = percent(used, data.size_bytes);
    return (
        <Panel title="Storage" aside={`${bytes(data.free_bytes)} free`}>
            <Meter value={used} of={data.size_bytes} label="used of the disk" state={part > 90 ? 'dead' : part > 75 ? 'retrying' : 'active'} wide />
            <Facts
                of={[
                    ['Folder', <code>{data.dir}</code>],
                    ['Jobs and settings', bytes(data.store_bytes)],
                    ['Journal', bytes(data.journal_bytes)],
                    ['Large bodies', bytes(data.blobs_bytes)],
                    ['Compiled plugins', bytes(data.compiled_bytes)],
                    ['Disk', `${bytes(used)} of ${bytes(data.size_bytes)} used`],
                ]}
            />
        </Panel>
    );
}

/** One of several, at once: nothing needs saving. */
function Choice<T extends string>({ legend, value, of, set }: { legend: string; value: T; of: Record<T, string>; set(to: T): void }) {
    return (
        <fieldset class="choice">
            <legend>{legend}</legend>
            {Object.entries(of).map(([key, title]) => (
                <label key={key} class="check">
                    <input type="radio" name={legend} checked={value === key} onChange={() => set(key as T)} />
                    {title as string}
                </label>
            ))}
        </fieldset>
    );
}

function You() {
    const known = session.value;
    const here = new Date(now.value);
    return (
        <div class="halves">
            <Panel title="In this browser">
                <div class="stack">
                    <Choice legend="Colours" value={theme.value} of={{ system: 'as the system', light: 'light', dark: 'dark' }} set={(to) => (theme.value = to)} />
                    <Choice
                        legend="Times"
                        value={times.value}
                        of={{ relative: 'how long ago', local: `in your time zone, ${Intl.DateTimeFormat().resolvedOptions().timeZone}`, utc: 'in UTC' }}
                        set={(to) => (times.value = to)}
                    />
                    <p class="dim">
                        So it looks: <Time at={new Date(here.getTime() - 200_000).toISOString()} />. Pointing at a time shows the others. The keys of the keyboard are behind <kbd>?</kbd>.
                    </p>
                </div>
            </Panel>
            <Panel title="Signed in">
                {known && (
                    <Facts
                        of={[
                            ['As', known.name ?? known.actor ?? '–'],
                            ['Role', known.role ?? '–'],
                            ['Namespace', known.chooses_namespace ? `${known.namespace}, and all others` : known.namespace],
                            ['Queues', known.queues.length ? known.queues.join(', ') : 'all'],
                            ['May', known.permissions.join(', ')],
                            known.expires_at && ['Until', <Time at={known.expires_at} future />],
                        ]}
                    />
                )}
            </Panel>
        </div>
    );
}
