// Workers: the programs outside of this server that fetch jobs, what they hold, and when they were last heard of.
import { ActionButton, count, Empty, live, Loading, now, PageHead, Panel, path, query, QueueLink, setQuery, Table, Time, type Action, type Column, type Worker } from '#kit';

/** A worker that is not heard of for longer is shown as silent; the server gives its jobs to others when their leases end. */
const SILENT_MS = 60_000;

function drain(worker: Worker): Action {
    const word = worker.draining ? 'resume' : 'drain';
    return {
        label: worker.draining ? 'Resume' : 'Drain',
        does: worker.draining ? `${worker.id} may fetch jobs again.` : `${worker.id} gets no further jobs, and finishes the ${worker.active ?? 0} that it has.`,
        done: worker.draining ? `${worker.id} fetches again` : `${worker.id} drains`,
        needs: 'operate',
        method: 'POST',
        path: path(['workers', worker.id, word]),
        command: ['worker', word, worker.id],
        ask: !worker.draining,
    };
}

const columns: Column<Worker>[] = [
    { key: 'id', title: 'Worker', cell: (worker) => <span title={worker.id}>{worker.id}</span> },
    { key: 'host', title: 'Machine', from: 'm', width: '140px', cell: (worker) => worker.hostname ?? '' },
    { key: 'queues', title: 'Queues', from: 's', cell: (worker) => worker.queues.map((name, at) => <span key={name}>{at > 0 && ', '}<QueueLink name={name} /></span>) },
    { key: 'active', title: 'Holds', num: true, width: '70px', cell: (worker) => count(worker.active ?? 0) },
    { key: 'seen', title: 'Last heard', width: '120px', cell: (worker) => <LastHeard at={worker.last_heartbeat} /> },
    { key: 'since', title: 'Since', width: '110px', from: 'l', cell: (worker) => <Time at={worker.started_at} /> },
    { key: 'do', title: '', width: '110px', from: 's', num: true, cell: (worker) => <ActionButton action={drain(worker)} /> },
];

const LastHeard = ({ at }: { at: string }) => (
    <span class={now.value - Date.parse(at) > SILENT_MS ? 'warn-line' : ''}>
        <Time at={at} />
    </span>
);

export default function Workers() {
    const search = (query.value.get('q') ?? '').toLowerCase();
    const all = live.workers.value;
    const shown = all.filter((worker) => [worker.id, worker.hostname ?? '', ...worker.queues].some((text) => text.toLowerCase().includes(search)));
    return (
        <>
            <PageHead title="Workers" about={live.known.value ? count(all.length) : undefined} />
            <div class="filters">
                <input type="search" data-filter aria-label="Filter workers" placeholder="Filter by name, machine or queue" value={search} onInput={(event) => setQuery({ q: event.currentTarget.value })} />
            </div>
            <Panel label="Workers" flush>
                {live.known.value ? (
                    <Table
                        label="Workers"
                        columns={columns}
                        rows={shown}
                        rowKey={(worker) => worker.id}
                        empty={
                            <Empty title={all.length ? 'No worker fits' : 'No worker has fetched lately'} command={all.length ? undefined : 'python3 examples/worker.py counting'}>
                                {all.length ? undefined : 'Workers are programs of your own that fetch jobs over HTTP. Plugins need none: they run inside this server.'}
                            </Empty>
                        }
                    />
                ) : (
                    <Loading />
                )}
            </Panel>
        </>
    );
}
