// Workers: the programs outside of this server that fetch jobs, what they hold, and when they were last heard of.
import { useEffect } from 'preact/hooks';
import {
    ActionButton, count, Empty, Facts, Failed, get, href, JobLink, Loading, Meter, now, PageHead, Panel, path, plural, post, query, QueueLink, setQuery, setTitle, span, StatePill, Table, Time, useResource, type Action,
    type Column, type Job, type Search,
} from '#kit';

interface Worker {
    id: string;
    hostname: string;
    queues: string[];
    last_heartbeat: string;
    started_at: string;
    uptime_seconds: number;
    draining: boolean;
    /** The jobs it holds. */
    jobs: string[];
}

/** A worker that is not heard of for longer is silent if it holds jobs, and otherwise gone; the server gives its jobs to others when their leases end. */
const SILENT_MS = 90_000;
const silent = (worker: Worker) => now.value - Date.parse(worker.last_heartbeat) > SILENT_MS;
const workerHref = (worker: Worker) => href('/workers', { name: worker.id });

function drain(worker: Worker): Action {
    const word = worker.draining ? 'resume' : 'drain';
    const held = worker.jobs.length;
    return {
        label: worker.draining ? 'Resume' : 'Drain',
        does: worker.draining ? `${worker.id} gets jobs again.` : `${worker.id} gets no further jobs${held ? `, and finishes the ${held} that it holds` : ''}. A restart of the server ends that.`,
        done: worker.draining ? `${worker.id} gets jobs again` : `${worker.id} drains`,
        needs: 'operate',
        method: 'POST',
        path: path(['workers', worker.id, word]),
        command: ['worker', word, worker.id],
        ask: !worker.draining,
    };
}

const Standing = ({ worker }: { worker: Worker }) =>
    worker.draining ? (
        <StatePill of="retrying">{worker.jobs.length ? 'draining' : 'drained'}</StatePill>
    ) : silent(worker) ? (
        <StatePill of={worker.jobs.length ? 'dead' : 'cancelled'}>{worker.jobs.length ? 'silent' : 'gone'}</StatePill>
    ) : worker.jobs.length ? (
        <StatePill of="active">working</StatePill>
    ) : (
        <StatePill of="pending">waiting</StatePill>
    );

const columns = (reload: () => void): Column<Worker>[] => [
    { key: 'id', title: 'Worker', cell: (worker) => <a href={workerHref(worker)} title={worker.id}>{worker.id}</a> },
    { key: 'state', title: 'State', width: '104px', cell: (worker) => <Standing worker={worker} /> },
    { key: 'host', title: 'Machine', from: 'l', width: '140px', cell: (worker) => <span title={worker.hostname}>{worker.hostname}</span> },
    { key: 'queues', title: 'Queues', from: 's', cell: (worker) => worker.queues.map((name, at) => <span key={name}>{at > 0 && ', '}<QueueLink name={name} /></span>) },
    { key: 'holds', title: 'Holds', width: '160px', from: 'm', cell: (worker) => <Holds worker={worker} /> },
    { key: 'seen', title: 'Last heard', width: '100px', cell: (worker) => <span class={silent(worker) && worker.jobs.length ? 'warn-line' : ''}><Time at={worker.last_heartbeat} /></span> },
    { key: 'do', title: '', width: '100px', from: 's', num: true, cell: (worker) => <ActionButton action={drain(worker)} after={reload} /> },
];

const Holds = ({ worker }: { worker: Worker }) => {
    const [first, ...more] = worker.jobs;
    if (!first) return <span class="dimmer">nothing</span>;
    return (
        <>
            <JobLink id={first} />
            {more.length > 0 && <span class="dim"> and {count(more.length)} more</span>}
        </>
    );
};

export default function Workers() {
    const found = useResource('workers', (signal) => get<Worker[]>('/workers', signal), { everyMs: 1500 });
    const name = query.value.get('name');
    useEffect(() => setTitle(name ?? 'Workers'), [name]);
    if (found.error && !found.data) return <><PageHead title="Workers" /><Panel label="Workers"><Failed error={found.error} retry={found.reload} /></Panel></>;
    if (!found.data) return <><PageHead title="Workers" /><Loading rows={6} /></>;
    if (!name) return <All workers={found.data} reload={found.reload} />;
    const worker = found.data.find((one) => one.id === name);
    return worker ? <One worker={worker} reload={found.reload} /> : <Gone name={name} />;
}

function All({ workers, reload }: { workers: Worker[]; reload(): void }) {
    const search = query.value.get('q') ?? '';
    const shown = workers.filter((worker) => [worker.id, worker.hostname, ...worker.queues].some((text) => text.toLowerCase().includes(search.toLowerCase())));
    const held = workers.reduce((sum, worker) => sum + worker.jobs.length, 0);
    return (
        <>
            <PageHead title="Workers" about={workers.length > 0 ? `${count(workers.length)} · ${plural(held, 'job')} held` : undefined} />
            <div class="filters">
                <input type="search" data-filter aria-label="Filter workers" placeholder="Filter by name, machine or queue" value={search} onInput={(event) => setQuery({ q: event.currentTarget.value })} />
            </div>
            <Panel label="Workers" flush>
                <Table
                    label="Workers"
                    columns={columns(reload)}
                    rows={shown}
                    rowKey={(worker) => worker.id}
                    href={workerHref}
                    empty={
                        <Empty title={workers.length ? 'No worker fits' : 'No worker has fetched since the server started'} command={workers.length ? undefined : 'python3 examples/worker.py counting'}>
                            {workers.length ? undefined : 'Workers are programs of your own that fetch jobs over HTTP. Plugins need none: they run inside this server.'}
                        </Empty>
                    }
                />
            </Panel>
        </>
    );
}

const Gone = ({ name }: { name: string }) => (
    <>
        <PageHead title={name} crumbs={[{ text: 'Workers', href: href('/workers') }]} />
        <Panel label="Worker">
            <Empty title="This worker has not fetched since the server started">It shows again with its next fetch.</Empty>
        </Panel>
    </>
);

const jobColumns: Column<Job>[] = [
    { key: 'id', title: 'Job', width: '120px', cell: (job) => <JobLink id={job.id} /> },
    { key: 'queue', title: 'Queue', from: 's', cell: (job) => <QueueLink name={job.queue} /> },
    { key: 'state', title: 'State', width: '110px', cell: (job) => <StatePill of={job.state} /> },
    { key: 'progress', title: 'Progress', width: '180px', from: 'm', cell: (job) => <Done job={job} /> },
    { key: 'since', title: 'Started', width: '100px', num: true, cell: (job) => <Time at={job.started_at} /> },
];

const Done = ({ job }: { job: Job }) =>
    job.state === 'active' && job.progress?.percent !== undefined ? (
        <span class="gauge">
            <Meter value={job.progress.percent} of={100} label="done" /> {Math.floor(job.progress.percent)} %
        </span>
    ) : (
        <span class="dim" title={job.progress?.message}>{(job.state === 'active' && job.progress?.message) || ''}</span>
    );

function One({ worker, reload }: { worker: Worker; reload(): void }) {
    const load = (signal: AbortSignal) => post<Search>('/jobs/search', { worker_id: worker.id, payload: 'none', sort: 'started_at', order: 'desc', limit: 50 }, signal);
    const found = useResource(`jobs of worker ${worker.id}`, load, { everyMs: 1500, keep: true });
    return (
        <>
            <PageHead title={worker.id} crumbs={[{ text: 'Workers', href: href('/workers') }]} about={<Standing worker={worker} />} actions={<ActionButton action={drain(worker)} after={reload} />} />
            <div class="split">
                <Panel title="What it runs and ran last" flush>
                    {found.error && !found.data ? (
                        <Failed error={found.error} retry={found.reload} />
                    ) : !found.data ? (
                        <Loading />
                    ) : (
                        <Table label="Jobs of the worker" columns={jobColumns} rows={running(found.data.jobs)} rowKey={(job) => job.id} href={(job) => href(`/jobs/${job.id}`)} empty={<Empty title="It has run no job that is still stored" />} />
                    )}
                </Panel>
                <Panel title="Worker">
                    <Facts
                        of={[
                            ['Holds', plural(worker.jobs.length, 'job')],
                            ['Machine', worker.hostname || '–'],
                            ['Queues', worker.queues.map((name, at) => <span key={name}>{at > 0 && ', '}<QueueLink name={name} /></span>)],
                            ['Last heard', <Time at={worker.last_heartbeat} />],
                            ['First seen', <Time at={worker.started_at} />],
                            ['Known for', span(worker.uptime_seconds * 1000)],
                        ]}
                    />
                    {silent(worker) && worker.jobs.length > 0 && <p class="warn-line">Not heard of for a while. When the leases of its jobs end, the server gives them to others.</p>}
                </Panel>
            </div>
        </>
    );
}

/** Those that run first. */
const running = (jobs: Job[]) => [...jobs].sort((a, b) => Number(b.state === 'active') - Number(a.state === 'active'));
