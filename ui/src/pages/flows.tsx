// Flows: batches, chains and trees of jobs, newest first.
import { useState } from 'preact/hooks';
import { asCurl, count, Empty, Failed, get, go, href, Loading, Meter, PageHead, Panel, path, query, shortId, StatePill, Table, Tabs, Time, useResource, type Column } from '#kit';

interface FlowRow {
    id: string;
    kind: 'batch' | 'chain' | 'tree';
    label: string;
    state: string;
    total: number;
    open: number;
    completed: number;
    dead: number;
    cancelled: number;
    percent: number;
    created_at: string;
    ended_at: string | null;
}

const KINDS = [
    { key: '', title: 'All' },
    { key: 'batch', title: 'Batches' },
    { key: 'chain', title: 'Chains' },
    { key: 'tree', title: 'Trees' },
];

const flowHref = (flow: FlowRow) => href(`/flows/${encodeURIComponent(flow.id)}`);
/** The colour is that of the job state which means the same. */
const colour = (flow: FlowRow) => (flow.dead > 0 ? 'dead' : flow.state === 'finished' ? 'completed' : flow.state === 'open' ? 'scheduled' : 'active');

const columns: Column<FlowRow>[] = [
    { key: 'label', title: 'Flow', cell: (flow) => <a href={flowHref(flow)} title={`${flow.label}\n${flow.id}`}>{flow.label || <span class="mono">{shortId(flow.id)}</span>}</a> },
    { key: 'id', title: 'Id', width: '130px', from: 'm', cell: (flow) => <span class="mono dim">{shortId(flow.id)}</span> },
    { key: 'kind', title: 'Kind', width: '70px', from: 's', cell: (flow) => flow.kind },
    { key: 'state', title: 'State', width: '100px', cell: (flow) => <StatePill of={colour(flow)}>{flow.state}</StatePill> },
    {
        key: 'done',
        title: 'Done',
        width: '148px',
        cell: (flow) => (
            <span class="gauge">
                <Meter value={flow.percent} of={100} label={`done of ${flow.label || flow.id}`} state={flow.state === 'finished' ? 'completed' : 'active'} />
                {Math.floor(flow.percent)} %
            </span>
        ),
    },
    { key: 'total', title: 'Jobs', num: true, width: '70px', cell: (flow) => count(flow.total) },
    { key: 'open', title: 'Open', num: true, width: '70px', from: 's', cell: (flow) => <span class={flow.open ? '' : 'dimmer'}>{count(flow.open)}</span> },
    { key: 'dead', title: 'Dead', num: true, width: '60px', from: 's', cell: (flow) => <span class={flow.dead ? 'dead-ink' : 'dimmer'}>{count(flow.dead)}</span> },
    { key: 'created', title: 'Created', num: true, width: '100px', from: 'm', cell: (flow) => <Time at={flow.created_at} /> },
];

export default function Flows() {
    const kind = query.value.get('kind') ?? '';
    const cursor = query.value.get('cursor');
    const found = useResource(
        `flows ${kind} ${cursor}`,
        (signal) => get<{ flows: FlowRow[]; cursor: string | null; has_more: boolean }>(path(['flows'], { kind, cursor, limit: 50 }), signal),
        { everyMs: 2000, keep: true },
    );
    return (
        <>
            <PageHead title="Flows" actions={<OpenOne />} />
            <Tabs label="Kind of flow" tabs={KINDS} current={kind} href={(kind) => href('/flows', { kind })} />
            <Panel label="Flows" flush>
                {found.error && !found.data ? (
                    <Failed error={found.error} retry={found.reload} />
                ) : !found.data ? (
                    <Loading rows={6} />
                ) : (
                    <Table
                        label="Flows"
                        columns={columns}
                        rows={found.data.flows}
                        rowKey={(flow) => flow.id}
                        href={flowHref}
                        empty={<Nothing kind={kind} older={cursor !== null} />}
                        foot={
                            (cursor || found.data.has_more) && (
                                <div class="table-foot">
                                    {cursor && <a href={href('/flows', { kind })}>Newest</a>}
                                    {found.data.has_more && <a href={href('/flows', { kind, cursor: found.data.cursor })}>Older ones</a>}
                                </div>
                            )
                        }
                    />
                )}
            </Panel>
        </>
    );
}

const CHAIN = { queue: 'fetch', chain: { steps: [{ queue: 'fetch' }, { queue: 'publish' }] } };
const EXAMPLES: Record<string, string> = {
    batch: 'windlass batch create --callback-queue reports',
    chain: asCurl({ method: 'POST', path: '/enqueue', body: CHAIN }),
};

function Nothing({ kind, older }: { kind: string; older: boolean }) {
    if (older) return <Empty title="No older flows" />;
    const what = kind === '' ? 'flows' : kind === 'batch' ? 'batches' : `${kind}s`;
    return (
        <Empty title={`There are no ${what}`} command={EXAMPLES[kind || 'batch']}>
            {kind === 'tree' ? 'A tree begins when a handler starts child jobs.' : 'A batch counts jobs and runs one more at their end; a chain runs jobs one after another; a job may have children.'}
        </Empty>
    );
}

/** Opens the flow that a job belongs to, too. */
function OpenOne() {
    const [id, set] = useState('');
    const open = (event: Event) => {
        event.preventDefault();
        if (id.trim()) go(href(`/flows/${encodeURIComponent(id.trim())}`));
    };
    return (
        <form class="row" onSubmit={open}>
            <input aria-label="Id of a job, batch or chain" placeholder="job_…, batch_…, chain_…" value={id} onInput={(event) => set(event.currentTarget.value)} />
            <button type="submit" disabled={!id.trim()}>
                Open
            </button>
        </form>
    );
}
