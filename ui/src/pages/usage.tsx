// Usage: what jobs cost in processor time, tokens and money, as the server adds it up for a period; what attempts of plugins take is
// counted by the server since its start.
import { useMemo, useState } from 'preact/hooks';
import { bytes, count, Empty, Failed, get, href, Loading, PageHead, Panel, path, plural, query, setQuery, span, Table, Tabs, useResource, type Column } from '#kit';

interface Used {
    jobs: number;
    completed: number;
    dead: number;
    cancelled: number;
    cpu_ms: number;
    wall_ms: number;
    peak_memory: number;
    /** Jobs that reported tokens or a cost. */
    reported: number;
    input_tokens: number;
    output_tokens: number;
    cache_creation_tokens: number;
    cache_read_tokens: number;
    cost_usd: number;
}

interface Summary {
    totals: Used;
    groups: (Used & { key: string | null })[];
    /** What groups beyond the limit used together. */
    other?: Used;
    complete: boolean;
    looked_at: number;
}

interface Row extends Used {
    key: string | null;
    id: string;
}

const PERIODS: Record<string, string> = { '1h': 'Last hour', '24h': 'Last day', '7d': 'Last week', '30d': 'Last month' };
/** What the server keeps without being told otherwise is a week. */
const PERIOD = '7d';
const MOST = 200;
const TAG = 'tag:';

/** A title, and what a job without a value is called. */
const BY: Record<string, { title: string; none: string }> = {
    queue: { title: 'Queue', none: '' },
    plugin: { title: 'Plugin', none: 'not in a plugin' },
    version: { title: 'Version', none: 'not in a plugin' },
    model: { title: 'Model', none: 'no model' },
    [TAG]: { title: 'Tag', none: 'without this tag' },
};

const dollars = (value: number) => (value === 0 ? '–' : value < 0.01 ? `$${value.toFixed(4)}` : `$${value.toFixed(2)}`);
const orNone = (value: number, text: (n: number) => string) => (value ? text(value) : <span class="dimmer">–</span>);
const input = (used: Used) => used.input_tokens + used.cache_creation_tokens + used.cache_read_tokens;

const VALUES: Record<string, (used: Used) => number> = { jobs: (used) => used.jobs, cpu: (used) => used.cpu_ms, ran: (used) => used.wall_ms, peak: (used) => used.peak_memory, input, output: (used) => used.output_tokens, cost: (used) => used.cost_usd };

function sorted(found: Summary, sort: string, down: boolean): Row[] {
    const value = VALUES[sort] ?? ((used: Used) => used.cost_usd);
    const rows = found.groups.map((group): Row => ({ ...group, id: `of ${group.key}` }));
    rows.sort((a, b) => (value(a) - value(b)) * (down ? -1 : 1) || b.cpu_ms - a.cpu_ms || b.jobs - a.jobs);
    if (found.other) rows.push({ ...found.other, key: null, id: 'others' });
    return rows;
}

export default function Usage() {
    const period = query.value.get('period') ?? PERIOD;
    const by = query.value.get('by') ?? 'queue';
    const tag = by.startsWith(TAG) ? by.slice(TAG.length) : null;
    const group = BY[tag === null ? by : TAG] ?? { title: by, none: 'none' };
    const sort = query.value.get('sort') ?? 'cost';
    const down = query.value.get('order') !== 'asc';
    const load = (signal: AbortSignal) => (tag === '' ? Promise.resolve(null) : get<Summary>(path(['usage', 'summary'], { period, group_by: by, limit: MOST }), signal));
    const found = useResource(`usage ${period} ${by}`, load, { everyMs: 30_000, keep: true });
    const rows = useMemo(() => (found.data ? sorted(found.data, sort, down) : []), [found.data, sort, down]);
    const columns: Column<Row>[] = [
        { key: 'key', title: group.title, cell: (row) => <Name by={by} none={group.none} row={row} /> },
        { key: 'jobs', title: 'Jobs', num: true, width: '70px', sort: 'jobs', cell: (row) => count(row.jobs) },
        { key: 'cpu', title: 'CPU', num: true, width: '86px', sort: 'cpu', cell: (row) => orNone(row.cpu_ms, span) },
        { key: 'each', title: 'CPU each', num: true, width: '86px', from: 'l', cell: (row) => orNone(row.cpu_ms / row.jobs, span) },
        { key: 'ran', title: 'Ran', num: true, width: '86px', from: 'm', sort: 'ran', cell: (row) => orNone(row.wall_ms, span) },
        { key: 'peak', title: 'Most memory', num: true, width: '110px', from: 'm', sort: 'peak', cell: (row) => orNone(row.peak_memory, bytes) },
        { key: 'input', title: 'Tokens in', num: true, width: '96px', from: 's', sort: 'input', cell: (row) => orNone(input(row), count) },
        { key: 'output', title: 'Tokens out', num: true, width: '96px', from: 's', sort: 'output', cell: (row) => orNone(row.output_tokens, count) },
        { key: 'cost', title: 'Cost', num: true, width: '84px', sort: 'cost', cell: (row) => orNone(row.cost_usd, dollars) },
    ];
    const all = found.data?.totals;
    return (
        <>
            <PageHead title="Usage" about={found.data && all && (found.data.complete ? plural(all.jobs, 'job') + ' ended' : `the latest ${count(found.data.looked_at)} jobs of this time`)} />
            <div class="filters">
                <div class="chips" role="group" aria-label="Jobs that ended in the">
                    {Object.entries(PERIODS).map(([key, title]) => (
                        <button key={key} type="button" class="chip" aria-pressed={period === key} onClick={() => setQuery({ period: key === PERIOD ? null : key })}>
                            {title}
                        </button>
                    ))}
                </div>
            </div>
            {all && <Tiles all={all} />}
            <Tabs
                label="Added up by"
                tabs={Object.entries(BY).map(([key, { title }]) => ({ key, title }))}
                current={tag === null ? by : TAG}
                href={(next) => href('/usage', { by: next, period: period === PERIOD ? null : period })}
            />
            {tag !== null && <TagKey key={tag} of={tag} />}
            <Panel label="Usage" flush>
                {found.error && !found.data ? (
                    <Failed error={found.error} retry={found.reload} />
                ) : tag === '' ? (
                    <Empty title="Which tag?">Jobs are added up by the values of one tag, such as customer or team.</Empty>
                ) : !found.data ? (
                    <Loading rows={6} />
                ) : (
                    <Table
                        label={`Usage by ${group.title.toLowerCase()}`}
                        columns={columns}
                        rows={rows}
                        rowKey={(row) => row.id}
                        sort={{ by: sort, down, set: (sort, down) => setQuery({ sort, order: down ? null : 'asc' }) }}
                        empty={
                            <Empty title="No job has ended in this time" command={'windlass enqueue hello \'{"to": 1}\''}>
                                Attempts in the sandbox are metered by the server. Tokens and money are what handlers report as their usage.
                            </Empty>
                        }
                    />
                )}
            </Panel>
            <Plugins />
        </>
    );
}

function TagKey({ of }: { of: string }) {
    const [key, set] = useState(of);
    const show = (event: Event) => {
        event.preventDefault();
        setQuery({ by: TAG + key.trim() });
    };
    return (
        <form class="row filters" onSubmit={show}>
            <input aria-label="Key of the tag" placeholder="customer" value={key} onInput={(event) => set(event.currentTarget.value)} />
            <button type="submit" disabled={!key.trim() || key.trim() === of}>
                Show
            </button>
        </form>
    );
}

function Name({ by, none, row }: { by: string; none: string; row: Row }) {
    if (row.id === 'others') return <span class="dim">all others</span>;
    if (row.key === null) return <span class="dim">{none}</span>;
    if (by === 'queue' || by === 'plugin') return <a href={href(`/${by}s/${encodeURIComponent(row.key)}`)}>{row.key}</a>;
    return (
        <span class={by === 'version' ? 'mono' : ''} title={row.key}>
            {by === 'version' ? row.key.slice(0, 12) : row.key}
        </span>
    );
}

const Tiles = ({ all }: { all: Used }) => {
    const tokens = input(all) + all.output_tokens;
    return (
        <section class="tiles" aria-label="Of these jobs together">
            {[
                { title: 'CPU time', value: all.cpu_ms ? span(all.cpu_ms) : '–', more: `of ${plural(all.jobs, 'job')}` },
                { title: 'Running time', value: all.wall_ms ? span(all.wall_ms) : '–', more: '' },
                { title: 'Tokens', value: tokens ? count(tokens) : '–', more: tokens ? `${count(all.output_tokens)} of them written` : '' },
                { title: 'Cost', value: dollars(all.cost_usd), more: all.reported ? `reported by ${plural(all.reported, 'job')}` : 'none reported' },
            ].map((tile) => (
                <div key={tile.title} class="tile">
                    <div class="l">{tile.title}</div>
                    <div class="v">
                        {tile.value} <span class="u">{tile.more}</span>
                    </div>
                </div>
            ))}
        </section>
    );
};

interface Figures {
    version: string;
    attempts: number;
    failed_attempts: number;
    cpu_ms: Dist;
    memory_bytes: Dist;
    run_ms: Dist;
}

interface Dist {
    count: number;
    p50: number | null;
    p95: number | null;
    max: number | null;
}

interface PluginRow extends Figures {
    plugin: string;
}

function Plugins() {
    const found = useResource(
        'figures',
        async (signal) => {
            const { plugins } = await get<{ plugins: { name: string; versions: { version: string; figures: Omit<Figures, 'version'> }[] }[] }>('/plugins', signal);
            const rows = plugins.flatMap(({ name, versions }) => versions.map(({ version, figures }): PluginRow => ({ ...figures, version, plugin: name })));
            return rows.filter((row) => row.attempts > 0);
        },
        { everyMs: 10_000, keep: true },
    );
    const dist = (of: (row: PluginRow) => Dist, text: (n: number) => string) => (row: PluginRow) => {
        const { p50, p95 } = of(row);
        return p50 === null || p95 === null ? <span class="dimmer">–</span> : `${text(p50)} · ${text(p95)}`;
    };
    const columns: Column<PluginRow>[] = [
        { key: 'plugin', title: 'Plugin', cell: (row) => <><a href={href(`/plugins/${encodeURIComponent(row.plugin)}`)}>{row.plugin}</a> <span class="mono dim">{row.version.slice(0, 6)}</span></> },
        { key: 'attempts', title: 'Attempts', num: true, width: '90px', cell: (row) => count(row.attempts) },
        { key: 'failed', title: 'Failed', num: true, width: '76px', from: 's', cell: (row) => <span class={row.failed_attempts ? 'dead-ink' : 'dimmer'}>{count(row.failed_attempts)}</span> },
        { key: 'cpu', title: 'CPU p50 · p95', num: true, width: '150px', cell: dist((row) => row.cpu_ms, span) },
        { key: 'run', title: 'Ran p50 · p95', num: true, width: '150px', from: 'm', cell: dist((row) => row.run_ms, span) },
        { key: 'memory', title: 'Memory p50 · p95', num: true, width: '170px', from: 's', cell: dist((row) => row.memory_bytes, bytes) },
    ];
    if (!found.data || found.data.length === 0) return found.error ? <Panel title="Plugins"><Failed error={found.error} retry={found.reload} /></Panel> : null;
    return (
        <Panel title="Attempts in the sandbox" aside="since the server started" flush>
            <Table label="Attempts in the sandbox" columns={columns} rows={found.data} rowKey={(row) => `${row.plugin} ${row.version}`} />
        </Panel>
    );
}
