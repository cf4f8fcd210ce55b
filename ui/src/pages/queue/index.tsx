// One queue: its jobs, its figures over time, its rounds and records, and its settings.
import { Chart, count, Empty, get, href, JobList, jobColumns, live, Loading, now, PageHead, Panel, path, query, rate, roughly, Running, ServedBy, span, Spark, StatePill, Tabs, thinned, useResource, type QueueRow, type Series } from '#kit';
import { QueueActions } from './actions';
import { Records, Rounds } from './rounds';
import { Settings } from './settings';

const COLUMNS = jobColumns({ queue: false });

export default function Queue({ name = '' }: { name?: string }) {
    const row = live.queues.value[name];
    const series = useResource(`series of ${name}`, (signal) => get<Series>(path(['stats', 'series'], { queue: name, window: '1h', step: '5s' }), signal), { everyMs: 5000 });
    const tab = query.value.get('tab') ?? 'jobs';
    if (!live.known.value) return <Loading rows={8} />;
    if (!row) {
        return (
            <>
                <PageHead title={name} crumbs={[{ text: 'Queues', href: href('/queues') }]} />
                <Empty title={`There is no queue ${name}`} command={`windlass enqueue ${name} '{}'`}>
                    It begins with its first job.
                </Empty>
            </>
        );
    }
    const tabs = [
        { key: 'jobs', title: 'Jobs' },
        { key: 'figures', title: 'Figures' },
        ...(row.rounds ? [{ key: 'rounds', title: 'Rounds' }] : []),
        { key: 'records', title: 'Records' },
        { key: 'settings', title: 'Settings' },
    ];
    return (
        <>
            <PageHead crumbs={[{ text: 'Queues', href: href('/queues') }]} title={name} about={<About queue={row} />} actions={<QueueActions queue={row} />} />
            <Tiles queue={row} series={series.data} />
            <Tabs label="Parts of the queue" tabs={tabs} current={tab} href={(key) => href(`/queues/${encodeURIComponent(name)}`, key === 'jobs' ? {} : { tab: key })} />
            {tab === 'jobs' && (
                <JobList
                    label={`Jobs of ${name}`}
                    base={{ queue: name }}
                    columns={COLUMNS}
                    counts={row as unknown as Record<string, number>}
                    actions={['retry', 'cancel', 'hold', 'move', 'change_priority', 'delete']}
                    empty={<Empty title="This queue has no jobs" command={`windlass enqueue ${name} '{}'`} />}
                />
            )}
            {tab === 'figures' && <Figures series={series.data} />}
            {tab === 'rounds' && <Rounds name={name} />}
            {tab === 'records' && <Records name={name} />}
            {tab === 'settings' && <Settings name={name} />}
        </>
    );
}

function About({ queue }: { queue: QueueRow }) {
    return (
        <span class="row wrap">
            {queue.paused || queue.draining ? <StatePill of="retrying">{queue.draining ? 'draining' : 'paused'}</StatePill> : null}
            <span>
                served by <ServedBy queue={queue} />
            </span>
            {queue.rate_limit ? (
                <span>
                    at most {count(queue.rate_limit)} per {span(queue.rate_window_ms ?? 1000)}
                </span>
            ) : null}
        </span>
    );
}

function Tiles({ queue, series }: { queue: QueueRow; series?: Series }) {
    return (
        <section class="tiles" aria-label="Now">
            <div class="tile">
                <div class="l">Waiting</div>
                <div class="v">
                    {count(queue.pending)}
                    {queue.oldest_pending_at && <span class="u"> · oldest {roughly(now.value - Date.parse(queue.oldest_pending_at))}</span>}
                </div>
                <Spark values={series ? thinned(series.pending, 40) : []} state="pending" />
            </div>
            <div class="tile">
                <div class="l">Running</div>
                <div class="v running">
                    {queue.paused || !queue.max_concurrency ? count(queue.active) : <Running queue={queue} />}
                </div>
                <span />
            </div>
            <div class="tile">
                <div class="l">Completed</div>
                <div class="v">
                    {rate(queue.completed_per_second_5s)}
                    <span class="u"> /s</span>
                </div>
                <Spark values={series ? thinned(series.completed, 40) : []} state="completed" />
            </div>
            <a class="tile" href={href('/dead', { queue: queue.name })}>
                <div class="l">Dead</div>
                <div class={`v ${queue.dead ? 'dead-ink' : ''}`}>
                    {count(queue.dead)}
                    {queue.retrying > 0 && <span class="u"> · {count(queue.retrying)} retrying</span>}
                </div>
                <Spark values={series ? thinned(series.dead, 40) : []} state="dead" />
            </a>
        </section>
    );
}

function Figures({ series }: { series?: Series }) {
    if (!series) return <Loading rows={6} />;
    if (!series.tracked) return <Empty title="This queue is not counted over time">The server tracks only so many queues at once; the busiest come first.</Empty>;
    const at = series.at.map((text) => Date.parse(text));
    const perSecond = (values: number[]) => values.map((value) => value / (series.step_ms / 1000));
    return (
        <>
            <Panel title="Throughput" aside="last hour">
                <Chart
                    label="Jobs per second"
                    unit="per second"
                    at={at}
                    text={rate}
                    lines={[
                        { title: 'enqueued', colour: '--active', values: perSecond(series.enqueued), fill: true },
                        { title: 'completed', colour: '--completed', values: perSecond(series.completed) },
                        { title: 'failed', colour: '--dead', values: perSecond(series.failed_attempts.map((value, at) => value + (series.dead[at] ?? 0))) },
                    ]}
                />
            </Panel>
            <Panel title="Waiting and running jobs">
                <Chart
                    label="Jobs"
                    at={at}
                    text={(value) => count(Math.round(value))}
                    lines={[
                        { title: 'waiting', colour: '--pending', values: series.pending, fill: true },
                        { title: 'running', colour: '--active', values: series.active },
                    ]}
                />
            </Panel>
            <Panel title="How long jobs wait and run">
                <Chart
                    label="Time"
                    at={at}
                    text={span}
                    lines={[
                        { title: 'wait p95', colour: '--pending', values: series.wait_ms.p95 },
                        { title: 'run p50', colour: '--scheduled', values: series.run_ms.p50 },
                        { title: 'run p95', colour: '--held', values: series.run_ms.p95 },
                    ]}
                />
            </Panel>
        </>
    );
}
