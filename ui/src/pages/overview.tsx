// The overview: how much is done, what waits, what fails, and who works.
import { useMemo } from 'preact/hooks';
import {
    bytes, Chart, Command, count, get, href, live, Meter, now, PageHead, Panel, path, percent, query, queueHref, rate, roughly, sortedQueues, span, Spark, Table, Tabs,
    thinned, Time, useQueueColumns, useResource, type DeadGroup, type QueueRow, type Series,
} from '#kit';

const WINDOWS = { '1h': { title: 'last hour', step: '5s' }, '24h': { title: 'last day', step: '1m' } } as const;
const ROWS = 12;

export default function Overview() {
    const window = query.value.get('window') === '24h' ? '24h' : '1h';
    const load = (signal: AbortSignal) => get<Series>(path(['stats', 'series'], { window, step: WINDOWS[window].step }), signal);
    const series = useResource(`series ${window}`, load, { everyMs: window === '1h' ? 5000 : 60_000, keep: true });
    const queues = Object.values(live.queues.value);
    if (live.known.value && queues.length === 0) return <Welcome />;
    const tabs = Object.entries(WINDOWS).map(([key, { title }]) => ({ key, title }));
    return (
        <>
            <PageHead title="Overview" actions={<Tabs label="Time shown" tabs={tabs} current={window} href={(key) => href('/', key === '1h' ? {} : { window: key })} />} />
            <Tiles series={series.data} queues={queues} />
            <div class="split">
                <Charts series={series.data} />
                <div>
                    <Failing />
                    <Slots />
                </div>
            </div>
            <Queues queues={queues} />
            <div class="halves">
                <Canaries />
                <Workers />
                <Disk />
            </div>
        </>
    );
}

function Welcome() {
    return (
        <>
            <PageHead title="Overview" />
            <Panel title="Nothing has been enqueued yet">
                <div class="stack">
                    <p>A job goes into a queue. A plugin, which is a WebAssembly component that runs inside this server, or a worker of your own takes it from there.</p>
                    <div class="stack tight">
                        <h3>Write a handler and upload it</h3>
                        <Command text="windlass plugin new hello --lang rust" />
                        <Command text="windlass plugin push hello" />
                    </div>
                    <div class="stack tight">
                        <h3>Enqueue a job and watch it</h3>
                        <Command text={`windlass enqueue hello '{"to": 10}' --watch`} />
                    </div>
                    <p>
                        What happens shows here by itself. <a href="/docs">Every route of the API</a>
                    </p>
                </div>
            </Panel>
        </>
    );
}

const sum = (values: number[]) => values.reduce((all, one) => all + one, 0);

function Tiles({ series, queues }: { series?: Series; queues: QueueRow[] }) {
    const now5 = live.rates.value;
    const waiting = live.totals.value.pending ?? 0;
    const oldest = queues.filter((queue) => queue.oldest_pending_at).sort((a, b) => (a.oldest_pending_at as string).localeCompare(b.oldest_pending_at as string))[0];
    const ended = series ? sum(series.completed) + sum(series.failed_attempts) + sum(series.dead) : 0;
    const failed = series ? ended - sum(series.completed) : 0;
    return (
        <section class="tiles" aria-label="Now">
            <div class="tile">
                <div class="l">Completed</div>
                <div class="v">
                    {rate(now5.completed_per_second_5s)}
                    <span class="u"> /s</span>
                </div>
                <Spark values={series ? thinned(series.completed, 40) : []} state="completed" />
            </div>
            <div class="tile">
                <div class="l">Waiting</div>
                <div class="v">{count(waiting)}</div>
                <Spark values={series ? thinned(series.pending, 40) : []} state="pending" />
            </div>
            <a class="tile" href={oldest ? queueHref(oldest) : href('/queues')}>
                <div class="l">Oldest waiting</div>
                <div class="v">
                    {oldest ? roughly(now.value - Date.parse(oldest.oldest_pending_at as string)) : '–'}
                    {oldest && <span class="u"> · {oldest.name}</span>}
                </div>
                <span />
            </a>
            <a class="tile" href={href('/dead')}>
                <div class="l">Failed attempts</div>
                <div class="v">
                    {ended > 0 ? ((failed / ended) * 100).toFixed(1) : '0'}
                    <span class="u"> % of {count(ended)}</span>
                </div>
                <Spark values={series ? thinned(series.failed_attempts.map((value, at) => value + (series.dead[at] ?? 0)), 40) : []} state="dead" />
            </a>
        </section>
    );
}

/** At most so many points: more than there are pixels make a chart no better. */
const POINTS = 240;

function Charts({ series }: { series?: Series }) {
    const drawn = useMemo(() => {
        if (!series) return null;
        const size = Math.max(1, Math.ceil(series.at.length / POINTS));
        const seconds = (series.step_ms * size) / 1000;
        const parts = Array.from({ length: Math.ceil(series.at.length / size) }, (_, at) => [at * size, Math.min((at + 1) * size, series.at.length)] as const);
        const perSecond = (values: number[]) => parts.map(([from, to]) => sum(values.slice(from, to)) / ((to - from) * (seconds / size)));
        const mean = (values: (number | null)[]) =>
            parts.map(([from, to]) => {
                const numbers = values.slice(from, to).filter((value): value is number => value !== null);
                return numbers.length ? sum(numbers) / numbers.length : null;
            });
        return { at: parts.map(([from]) => Date.parse(series.at[from] as string)), perSecond, mean };
    }, [series]);
    if (!series || !drawn) {
        return (
            <Panel title="Throughput">
                <div class="chart-space" />
            </Panel>
        );
    }
    const failed = series.failed_attempts.map((value, at) => value + (series.dead[at] ?? 0));
    return (
        <Panel title="Throughput" aside={series.at.length < 12 ? <>counted since <Time at={series.since} /></> : undefined}>
            <Chart
                label="Jobs per second"
                unit="per second"
                at={drawn.at}
                text={rate}
                lines={[
                    { title: 'enqueued', colour: '--active', values: drawn.perSecond(series.enqueued), fill: true },
                    { title: 'completed', colour: '--completed', values: drawn.perSecond(series.completed) },
                    { title: 'failed', colour: '--dead', values: drawn.perSecond(failed) },
                ]}
            />
            <h2 class="chart-title">How long jobs wait and run</h2>
            <Chart
                label="Waiting and running time"
                height={110}
                at={drawn.at}
                text={span}
                lines={[
                    { title: 'wait p95', colour: '--pending', values: drawn.mean(series.wait_ms.p95) },
                    { title: 'run p50', colour: '--scheduled', values: drawn.mean(series.run_ms.p50) },
                    { title: 'run p95', colour: '--held', values: drawn.mean(series.run_ms.p95) },
                ]}
            />
        </Panel>
    );
}

function Failing() {
    const groups = useResource('failing', (signal) => get<{ total: number; groups: DeadGroup[] }>('/dead/groups?limit=6', signal), { everyMs: 5000 });
    const all = groups.data?.groups ?? [];
    return (
        <Panel title="Failing" aside={<a href={href('/dead')}>dead letters</a>}>
            {all.length === 0 ? (
                <p class="dim">{groups.loading ? '…' : 'No job is dead.'}</p>
            ) : (
                <ul class="list">
                    {all.map((group) => (
                        <li key={group.fingerprint}>
                            <a class="clip" href={href('/dead', { group: group.fingerprint })} title={group.sample_error}>
                                {group.sample_error || 'no error was given'}
                            </a>
                            <span class="num strong">{count(group.count)}</span>
                            <span class="dimmer clip">{group.queues.map((one) => one.queue).join(', ')}</span>
                            <span class="dimmer num">
                                <Time at={group.last_at} />
                            </span>
                        </li>
                    ))}
                </ul>
            )}
        </Panel>
    );
}

/** Those that need somebody first: failing, then waiting long, then busy. */
function Queues({ queues }: { queues: QueueRow[] }) {
    const rows = useMemo(() => sortedQueues(queues, 'completed_per_second', true).slice(0, ROWS), [queues]);
    return (
        <Panel title="Queues" aside={<a href={href('/queues')}>all {count(queues.length)}</a>} flush>
            <Table label="The busiest queues" columns={useQueueColumns()} rows={rows} rowKey={(queue) => queue.name} href={queueHref} />
        </Panel>
    );
}

const COLOURS = ['active', 'scheduled', 'held', 'completed', 'retrying', 'pending'];

function Slots() {
    const { total, busy, by_plugin, busy_elsewhere } = live.slots.value;
    const plugins = Object.entries(by_plugin).sort((a, b) => b[1] - a[1]);
    const cells = plugins.flatMap(([, n], at) => Array.from({ length: n }, () => COLOURS[Math.min(at, COLOURS.length - 1)]));
    cells.push(...Array.from({ length: busy_elsewhere ?? 0 }, () => 'cancelled'));
    const shown = Math.min(total, 256);
    return (
        <Panel title="Slots" aside={`${count(busy)} of ${count(total)}`}>
            <div class="slots" role="img" aria-label={`${busy} of ${total} slots are busy`}>
                {Array.from({ length: shown }, (_, at) => (
                    <i key={at} class={cells[at] ? `is-${cells[at]}` : undefined} />
                ))}
            </div>
            <p class="legend slots-legend">
                {plugins.slice(0, 8).map(([name, n], at) => (
                    <span key={name} class={`pill is-${COLOURS[Math.min(at, COLOURS.length - 1)]}`}>
                        {name} {n}
                    </span>
                ))}
                {!!busy_elsewhere && <span class="pill is-cancelled">other namespaces {busy_elsewhere}</span>}
                {plugins.length === 0 && !busy_elsewhere && <span>Nothing runs in the sandbox.</span>}
            </p>
        </Panel>
    );
}

/** The disk of the server, for those who may see it. */
function Disk() {
    const data = useResource('disk', (signal) => get<{ data: { store_bytes: number; journal_bytes: number; blobs_bytes: number; free_bytes: number; size_bytes: number } | null }>('/system', signal), { everyMs: 10_000 }).data?.data;
    if (!data) return null;
    const used = data.size_bytes - data.free_bytes;
    const part = percent(used, data.size_bytes);
    return (
        <Panel title="Disk" aside={<a href={href('/settings')}>{bytes(data.free_bytes)} free</a>}>
            <Meter value={used} of={data.size_bytes} label="used of the disk" state={part > 90 ? 'dead' : part > 75 ? 'retrying' : 'active'} wide />
            <p class="slots-legend dim">
                {Math.round(part)} % used · {bytes(data.store_bytes + data.journal_bytes + data.blobs_bytes)} of it by jobs
            </p>
        </Panel>
    );
}

interface CanaryFigures {
    plugin?: string;
    running?: number;
    version?: string;
    ended?: number;
    failed?: number;
    min_attempts?: number;
    promote_after?: number | null;
    max_failure_rate?: number;
    verdict?: string;
}

function Canaries() {
    const all = Object.entries(live.canaries.value) as [string, CanaryFigures][];
    return (
        <>
            {all.map(([name, canary]) => {
                const [ended, failed] = [canary.ended ?? 0, canary.failed ?? 0];
                const of = canary.promote_after ?? canary.min_attempts ?? 0;
                return (
                    <Panel key={name} title={`Canary of ${name}`} aside={<a href={href(`/plugins/${encodeURIComponent(name)}`)}>{(canary.version ?? '').slice(0, 6)}</a>}>
                        <div class="bar wide" role="img" aria-label={`${ended} of ${of} attempts`}>
                            <i class="fill is-held" style={{ width: `${of ? Math.min(100, (ended / of) * 100) : 0}%` }} />
                        </div>
                        <p class="slots-legend">
                            {count(ended)}
                            {of ? ` of ${count(of)}` : ''} attempts · {ended ? ((failed / ended) * 100).toFixed(1) : 0} % failed
                            {canary.max_failure_rate !== undefined && <span class="dim">, at most {(canary.max_failure_rate * 100).toFixed(0)} %</span>}
                        </p>
                    </Panel>
                );
            })}
        </>
    );
}

function Workers() {
    const workers = live.workers.value;
    if (workers.length === 0) return null;
    return (
        <Panel title="Workers" aside={<a href={href('/workers')}>all {count(workers.length)}</a>}>
            <ul class="list columns">
                {workers.slice(0, 6).map((worker) => (
                    <li key={worker.id}>
                        <span class="clip">{worker.id}</span>
                        <span class="num dim">{worker.draining ? 'draining' : `${worker.active ?? 0} running`}</span>
                        <span class="dimmer clip">{worker.queues.join(', ')}</span>
                        <span class="dimmer num">
                            <Time at={worker.last_heartbeat} />
                        </span>
                    </li>
                ))}
            </ul>
        </Panel>
    );
}
