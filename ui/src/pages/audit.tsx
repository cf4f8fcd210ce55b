// The audit log: who changed what, when and from where, and whether the log itself is whole.
import { useState } from 'preact/hooks';
import {
    asCommand, asCurl, Command, Empty, explain, Failed, get, href, Loading, PageHead, Panel, path, query, saveAs, session, setQuery, StatePill, Table, Time, useResource, type Column,
} from '#kit';

interface Entry {
    seq: number;
    at: string;
    actor: string;
    role: string | null;
    namespace: string;
    address: string | null;
    action: string;
    target: string;
    outcome: string;
    reason?: string;
    hash: string;
}

interface Page {
    entries: Entry[];
    cursor?: number;
    verified?: boolean;
    broken_at?: number;
}

const PAGE = 200;
const FILTERS = ['actor', 'action', 'target', 'since'] as const;
const STATES: Record<string, string> = { done: 'completed', refused: 'retrying', denied: 'dead' };

/** Where the subject of an action is found. */
function targetHref(entry: Entry): string | null {
    const { action, target } = entry;
    const of = entry.namespace === 'default' ? '' : entry.namespace;
    if (/^job_\w{26}$/.test(target)) return href(`/jobs/${target}`, {}, of);
    const kind = action.split('.')[0];
    if (kind === 'plugin' || kind === 'grant') return href(`/plugins/${encodeURIComponent(target)}`, {}, of);
    if (kind === 'queue') return href(`/queues/${encodeURIComponent(target)}`, {}, of);
    return null;
}

const choose = (name: string, value: string) => (
    <button type="button" class="quiet small" title={`Only this ${name}`} onClick={() => setQuery({ [name]: value, before: null }, { push: true })}>
        {value}
    </button>
);

const columns: Column<Entry>[] = [
    { key: 'seq', title: 'No.', num: true, width: '64px', from: 'm', cell: (entry) => entry.seq },
    { key: 'at', title: 'When', width: '92px', cell: (entry) => <Time at={entry.at} /> },
    { key: 'actor', title: 'Who', width: '150px', cell: (entry) => <>{choose('actor', entry.actor)}</> },
    { key: 'role', title: 'Role', width: '84px', from: 'l', cell: (entry) => <span class="dim">{entry.role ?? ''}</span> },
    { key: 'action', title: 'Did', width: '160px', cell: (entry) => choose('action', entry.action) },
    {
        key: 'target',
        title: 'To',
        from: 's',
        cell: (entry) => {
            const to = targetHref(entry);
            return to ? <a href={to} title={entry.target}>{entry.target}</a> : <span title={entry.target}>{entry.target}</span>;
        },
    },
    { key: 'namespace', title: 'Namespace', width: '100px', from: 'l', cell: (entry) => <span class="dim">{entry.namespace}</span> },
    { key: 'address', title: 'From', width: '120px', from: 'l', cell: (entry) => <span class="mono dim">{entry.address ?? ''}</span> },
    { key: 'outcome', title: 'Outcome', width: '96px', from: 's', cell: (entry) => <span title={entry.reason}><StatePill of={STATES[entry.outcome] ?? 'pending'}>{entry.outcome}</StatePill></span> },
];

export default function Audit() {
    const filter = Object.fromEntries(FILTERS.map((name) => [name, query.value.get(name) ?? '']));
    const before = Number(query.value.get('before') ?? 0) || undefined;
    const key = JSON.stringify([filter, before]);
    const since = filter.since && !Number.isNaN(Date.parse(filter.since)) ? new Date(filter.since).toISOString() : undefined;
    const load = (signal: AbortSignal) => get<Page>(path(['audit-logs'], { ...filter, since, before, order: 'desc', limit: PAGE }), signal);
    const found = useResource(`audit ${key}`, load, { everyMs: before ? undefined : 5000, keep: true });
    const filtered = FILTERS.some((name) => filter[name]);
    const asked = { method: 'GET' as const, path: path(['audit-logs'], { ...filter, since, order: 'desc', limit: 1000 }), command: ['audit', '--order', 'desc', ...FILTERS.flatMap((name) => (filter[name] ? [`--${name}`, name === 'since' ? (since ?? '') : (filter[name] as string)] : [])), '--output', 'json'] };
    return (
        <>
            <PageHead title="Audit" about="who changed what" actions={<Export filter={{ ...filter, since: since ?? '' }} />} />
            <div class="filters">
                {FILTERS.map((name) => (
                    <Filter key={name} name={name} value={filter[name] ?? ''} />
                ))}
                {(filtered || before !== undefined) && (
                    <button type="button" class="quiet" onClick={() => setQuery({ actor: null, action: null, target: null, since: null, before: null })}>
                        All
                    </button>
                )}
            </div>
            {session.value?.chooses_namespace && <Verify />}
            <Panel label="Audit log" flush>
                {found.error && !found.data ? (
                    <Failed error={found.error} retry={found.reload} />
                ) : !found.data ? (
                    <Loading rows={8} />
                ) : (
                    <Table
                        label="Audit log"
                        columns={columns}
                        rows={found.data.entries}
                        rowKey={(entry) => String(entry.seq)}
                        empty={<Empty title={filtered ? 'No entry fits' : 'Nothing has been changed yet'}>{filtered ? undefined : 'Every change by a person or a program with a key is noted here, also those that were refused. Never a value.'}</Empty>}
                        foot={
                            (found.data.cursor !== undefined || before !== undefined) && (
                                <div class="table-foot">
                                    {before !== undefined && (
                                        <button type="button" onClick={() => setQuery({ before: null }, { push: true })}>
                                            The newest
                                        </button>
                                    )}
                                    {found.data.cursor !== undefined && (
                                        <button type="button" onClick={() => setQuery({ before: found.data?.cursor }, { push: true })}>
                                            Older entries
                                        </button>
                                    )}
                                </div>
                            )
                        }
                    />
                )}
            </Panel>
            <details class="as-commands">
                <summary>The same from a terminal</summary>
                <Command text={asCommand(asked) ?? ''} />
                <Command text={asCurl(asked)} />
            </details>
        </>
    );
}

const LABELS: Record<string, [string, string]> = { actor: ['Who', 'id of a key'], action: ['Action', 'plugin, or plugin.activate'], target: ['Target', 'job, queue, plugin or key'], since: ['Since', ''] };

function Filter({ name, value }: { name: string; value: string }) {
    const [label, placeholder] = LABELS[name] ?? [name, ''];
    return (
        <label class="field-row">
            {label}
            <input
                {...({ type: name === 'since' ? 'datetime-local' : 'search', 'data-filter': name === 'actor' || undefined } as object)}
                spellcheck={false}
                placeholder={placeholder}
                value={value}
                onChange={(event) => setQuery({ [name]: event.currentTarget.value, before: null })}
            />
        </label>
    );
}

/** Each entry has the hash of the one before: going through all of them tells whether one was changed or is missing. */
function Verify() {
    const [state, set] = useState<{ checked: number; at?: 'running' | 'whole' | 'broken' | 'failed'; why?: string }>({ checked: 0 });
    const run = async () => {
        let [after, checked] = [0, 0];
        set({ checked, at: 'running' });
        try {
            for (;;) {
                const page = await get<Page>(path(['audit-logs'], { after, limit: 1000, verify: true }));
                if (page.verified === false) return set({ checked, at: 'broken', why: `Entry ${page.broken_at} does not follow from the one before it: something was changed or removed.` });
                checked += page.entries.length;
                if (page.cursor === undefined) return set({ checked, at: 'whole' });
                after = page.cursor;
                set({ checked, at: 'running' });
            }
        } catch (error) {
            set({ checked, at: 'failed', why: explain(error) });
        }
    };
    return (
        <p class="row wrap" role="status">
            <button type="button" disabled={state.at === 'running'} onClick={run}>
                Verify the chain
            </button>
            {state.at === 'running' && <span class="dim">{state.checked} entries so far…</span>}
            {state.at === 'whole' && <StatePill of="completed">whole: {state.checked} entries follow each other unchanged</StatePill>}
            {state.at === 'broken' && <StatePill of="dead">{state.why}</StatePill>}
            {state.at === 'failed' && <span class="wrong-line">{state.why}</span>}
        </p>
    );
}

/** As JSON lines, page after page, into a file. */
function Export({ filter }: { filter: Record<string, string> }) {
    const [busy, setBusy] = useState(0);
    const [wrong, setWrong] = useState('');
    const save = async () => {
        setWrong('');
        const lines: string[] = [];
        try {
            for (let after = 0; ; ) {
                setBusy(lines.length + 1);
                const page = await get<Page>(path(['audit-logs'], { ...filter, after, limit: 1000 }));
                lines.push(...page.entries.map((entry) => JSON.stringify(entry)));
                if (page.cursor === undefined) break;
                after = page.cursor;
            }
            saveAs('windlass-audit.jsonl', new Blob([lines.join('\n') + '\n'], { type: 'application/x-ndjson' }));
        } catch (error) {
            setWrong(explain(error));
        }
        setBusy(0);
    };
    return (
        <>
            {wrong && <span class="wrong-line" role="alert">{wrong}</span>}
            <button type="button" disabled={busy > 0} onClick={save}>
                {busy ? `Reading, ${busy} so far…` : 'Export'}
            </button>
        </>
    );
}
