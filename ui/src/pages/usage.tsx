// Usage: what jobs cost in processor time, tokens and money. The server keeps it with each job, so this adds up the latest that ended, and
// says of how many; what plugins use is counted by the server since its start.
import { useMemo } from 'preact/hooks';
import { bytes, count, Empty, Failed, get, href, Loading, PageHead, Panel, plural, post, query, setQuery, span, Table, Tabs, useResource, type Column, type Job, type Search } from '#kit';

interface Tokens {
    input_tokens?: number;
    output_tokens?: number;
    cache_creation_tokens?: number;
    cache_read_tokens?: number;
    model?: string;
    provider?: string;
    cost_usd?: number;
}

interface Sum {
    key: string;
    jobs: number;
    cpu: number;
    ran: number;
    peak: number;
    input: number;
    output: number;
    cost: number;
    /** Jobs that reported tokens or a cost. */
    reported: number;
}

/** As many as one search gives. */
const SAMPLE = 1000;

const BY: Record<string, { title: string; of(job: Job): string }> = {
    queue: { title: 'Queue', of: (job) => job.queue },
    plugin: { title: 'Plugin', of: (job) => job.plugin ?? (job.worker ? 'workers' : 'not run') },
    model: { title: 'Model', of: (job) => (job.usage as Tokens | undefined)?.model ?? 'no model' },
    tenant: { title: 'Tenant', of: (job) => job.tags.tenant ?? 'no tag “tenant”' },
};

const dollars = (value: number) => (value === 0 ? '–' : value < 0.01 ? `$${value.toFixed(4)}` : `$${value.toFixed(2)}`);
const orNone = (value: number, text: (n: number) => string) => (value ? text(value) : <span class="dimmer">–</span>);

function sums(jobs: Job[], of: (job: Job) => string): Sum[] {
    const found = new Map<string, Sum>();
    for (const job of jobs) {
        const key = of(job);
        const sum = found.get(key) ?? { key, jobs: 0, cpu: 0, ran: 0, peak: 0, input: 0, output: 0, cost: 0, reported: 0 };
        found.set(key, sum);
        const used = job.attempt_usage;
        const tokens = job.usage as Tokens | undefined;
        sum.jobs += 1;
        sum.cpu += used?.cpu_ms ?? 0;
        sum.ran += used?.wall_ms ?? 0;
        sum.peak = Math.max(sum.peak, used?.peak_memory ?? 0);
        sum.input += (tokens?.input_tokens ?? 0) + (tokens?.cache_creation_tokens ?? 0) + (tokens?.cache_read_tokens ?? 0);
        sum.output += tokens?.output_tokens ?? 0;
        sum.cost += tokens?.cost_usd ?? 0;
        if (tokens) sum.reported += 1;
    }
    return [...found.values()];
}

const VALUES: Record<string, (sum: Sum) => number> = { jobs: (sum) => sum.jobs, cpu: (sum) => sum.cpu, ran: (sum) => sum.ran, peak: (sum) => sum.peak, input: (sum) => sum.input, output: (sum) => sum.output, cost: (sum) => sum.cost };

export default function Usage() {
    const by = query.value.get('by') ?? 'queue';
    const group = BY[by] ?? (BY.queue as (typeof BY)[string]);
    const sort = query.value.get('sort') ?? 'cost';
    const down = query.value.get('order') !== 'asc';
    const load = (signal: AbortSignal) => post<Search>('/jobs/search', { state: ['completed', 'dead', 'cancelled'], payload: 'none', sort: 'updated_at', order: 'desc', limit: SAMPLE }, signal);
    const found = useResource('usage', load, { everyMs: 10_000, keep: true });
    const rows = useMemo(() => {
        const value = VALUES[sort] ?? (VALUES.cost as (sum: Sum) => number);
        const order = down ? -1 : 1;
        return sums(found.data?.jobs ?? [], group.of).sort((a, b) => (value(a) - value(b)) * order || b.cpu - a.cpu || b.jobs - a.jobs);
    }, [found.data, by, sort, down]);
    const all = useMemo(() => sums(found.data?.jobs ?? [], () => 'all')[0], [found.data]);
    const columns: Column<Sum>[] = [
        { key: 'key', title: group.title, cell: (sum) => <Name by={by} name={sum.key} /> },
        { key: 'jobs', title: 'Jobs', num: true, width: '70px', sort: 'jobs', cell: (sum) => count(sum.jobs) },
        { key: 'cpu', title: 'CPU', num: true, width: '86px', sort: 'cpu', cell: (sum) => orNone(sum.cpu, span) },
        { key: 'each', title: 'CPU each', num: true, width: '86px', from: 'l', cell: (sum) => orNone(sum.cpu / sum.jobs, span) },
        { key: 'ran', title: 'Ran', num: true, width: '86px', from: 'm', sort: 'ran', cell: (sum) => orNone(sum.ran, span) },
        { key: 'peak', title: 'Most memory', num: true, width: '110px', from: 'm', sort: 'peak', cell: (sum) => orNone(sum.peak, bytes) },
        { key: 'input', title: 'Tokens in', num: true, width: '96px', from: 's', sort: 'input', cell: (sum) => orNone(sum.input, count) },
        { key: 'output', title: 'Tokens out', num: true, width: '96px', from: 's', sort: 'output', cell: (sum) => orNone(sum.output, count) },
        { key: 'cost', title: 'Cost', num: true, width: '84px', sort: 'cost', cell: (sum) => orNone(sum.cost, dollars) },
    ];
    return (
        <>
            <PageHead title="Usage" about={found.data && (found.data.has_more ? `the latest ${count(found.data.jobs.length)} of ${count(found.data.total)} ended jobs` : plural(found.data.jobs.length, 'ended job'))} />
            {all && <Tiles all={all} />}
            <Tabs label="Added up by" tabs={Object.entries(BY).map(([key, { title }]) => ({ key, title }))} current={by} href={(by) => href('/usage', { by })} />
            <Panel label="Usage" flush>
                {found.error && !found.data ? (
                    <Failed error={found.error} retry={found.reload} />
                ) : !found.data ? (
                    <Loading rows={6} />
                ) : (
                    <Table
                        label={`Usage by ${group.title.toLowerCase()}`}
                        columns={columns}
                        rows={rows}
                        rowKey={(sum) => sum.key}
                        sort={{ by: sort, down, set: (sort, down) => setQuery({ sort, order: down ? null : 'asc' }) }}
                        empty={
                            <Empty title="No job has ended yet" command={'windlass enqueue hello \'{"to": 1}\''}>
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

function Name({ by, name }: { by: string; name: string }) {
    if (by === 'queue') return <a href={href(`/queues/${encodeURIComponent(name)}`)}>{name}</a>;
    if (by === 'plugin' && name !== 'workers' && name !== 'not run') return <a href={href(`/plugins/${encodeURIComponent(name)}`)}>{name}</a>;
    return <span title={name}>{name}</span>;
}

const Tiles = ({ all }: { all: Sum }) => (
    <section class="tiles" aria-label="Of these jobs together">
        {[
            { title: 'CPU time', value: all.cpu ? span(all.cpu) : '–', more: `of ${plural(all.jobs, 'job')}` },
            { title: 'Running time', value: all.ran ? span(all.ran) : '–', more: '' },
            { title: 'Tokens', value: all.input + all.output ? count(all.input + all.output) : '–', more: all.input + all.output ? `${count(all.output)} of them written` : '' },
            { title: 'Cost', value: dollars(all.cost), more: all.reported ? `reported by ${plural(all.reported, 'job')}` : 'none reported' },
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

interface Figures {
    version: string;
    attempts: number;
    failed: number;
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
        { key: 'failed', title: 'Failed', num: true, width: '76px', from: 's', cell: (row) => <span class={row.failed ? 'dead-ink' : 'dimmer'}>{count(row.failed)}</span> },
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
