// A flow: jobs that belong together, as a graph, over time, or as a tree; live while any of them is open.
import { useMemo } from 'preact/hooks';
import { ActionButton, count, Empty, Failed, href, Loading, PageHead, Panel, path, plural, query, setQuery, shortId, StatePill, STATES, Tabs, useResource, type Action } from '#kit';
import { Gantt } from './gantt';
import { Graph } from './graph';
import { readFlow } from './load';
import { isEnded, jobsOf, layout, tally, type Flow } from './shape';
import { Tree } from './tree';

const VIEWS = [
    { key: 'graph', title: 'Graph' },
    { key: 'time', title: 'Over time' },
    { key: 'tree', title: 'Tree' },
];

export default function FlowPage({ id = '' }: { id?: string }) {
    const flow = useResource(`flow ${id}`, (signal) => readFlow(id, signal), { everyMs: id.startsWith('batch_') ? 2000 : 1000, keep: true });
    const crumbs = [{ text: 'Flows', href: href('/flows') }];
    if (!flow.data) {
        return (
            <>
                <PageHead title={shortId(id)} crumbs={crumbs} />
                {flow.error ? <Panel label="Flow">{<Failed error={flow.error} retry={flow.reload} />}</Panel> : <Loading rows={6} />}
            </>
        );
    }
    return <Shown id={id} flow={flow.data} reload={flow.reload} crumbs={crumbs} />;
}

function Shown({ id, flow, reload, crumbs }: { id: string; flow: Flow; reload(): void; crumbs: { text: string; href: string }[] }) {
    const placed = useMemo(() => layout(flow), [flow]);
    const chosen = query.value.get('view') ?? (placed ? 'graph' : 'tree');
    const views = placed ? VIEWS : VIEWS.slice(1);
    const only = query.value.get('state') ?? '';
    const counts = useMemo(() => tally(flow, STATES), [flow]);
    const all = jobsOf(flow).length;
    const shown = useMemo(() => (only ? { ...flow, nodes: flow.nodes.filter((node) => node.state === only) } : flow), [flow, only]);
    const kind = id.startsWith('batch_') ? 'Batch' : id.startsWith('chain_') ? 'Chain' : 'Flow of job';
    return (
        <>
            <PageHead
                title={
                    <>
                        {kind} <span class="mono">{shortId(id)}</span>
                    </>
                }
                crumbs={crumbs}
                about={`${plural(all, 'job')}${flow.truncated ? ' of more' : ''}`}
                actions={<Acts id={id} flow={flow} after={reload} />}
            />
            <Share counts={counts} all={all} />
            <div class="filters">
                <div class="chips" role="group" aria-label="Only jobs that are">
                    {counts.map(({ state, count: n }) => (
                        <button key={state} type="button" class="chip" aria-pressed={only === state} onClick={() => setQuery({ state: only === state ? null : state })}>
                            <StatePill of={state}>
                                {state} {count(n)}
                            </StatePill>
                        </button>
                    ))}
                </div>
            </div>
            {flow.truncated && <p class="dim">This flow is larger than what is shown at once; nodes such as “12 more” stand for the rest. The search finds all of its jobs.</p>}
            <Panel label="Flow" flush>
                <Tabs label="How it is shown" tabs={views} current={chosen} href={(view) => href(`/flows/${encodeURIComponent(id)}`, { view, state: only })} />
                {shown.nodes.length === 0 ? (
                    <Empty title={`No job of this flow is ${only}`}>
                        <button type="button" onClick={() => setQuery({ state: null })}>
                            Show all
                        </button>
                    </Empty>
                ) : chosen === 'time' ? (
                    <Gantt flow={shown} />
                ) : chosen === 'graph' && placed ? (
                    <Graph flow={shown} layout={placed} />
                ) : (
                    <Tree flow={shown} />
                )}
            </Panel>
        </>
    );
}

/** How much of it is in which state, as one bar. */
function Share({ counts, all }: { counts: { state: string; count: number }[]; all: number }) {
    if (all === 0) return null;
    const ended = counts.filter((one) => isEnded(one.state)).reduce((sum, one) => sum + one.count, 0);
    return (
        <div class="share">
            <div class="bar wide thick" role="meter" aria-label="Jobs that have ended" aria-valuemin={0} aria-valuemax={all} aria-valuenow={ended}>
                {[...counts].sort((a, b) => Number(isEnded(b.state)) - Number(isEnded(a.state))).map((one) => (
                    <i key={one.state} class={`fill is-${one.state}`} style={{ width: `${(one.count / all) * 100}%` }} />
                ))}
            </div>
            <p class="dim">
                {count(ended)} of {count(all)} ended · {Math.floor((ended / all) * 100)} %
            </p>
        </div>
    );
}

function Acts({ id, flow, after }: { id: string; flow: Flow; after(): void }) {
    const jobs = jobsOf(flow);
    const open = jobs.filter((node) => !isEnded(node.state));
    const dead = jobs.filter((node) => node.state === 'dead');
    const batch = flow.nodes.find((node) => node.id === id && node.kind === 'batch');
    return (
        <>
            {batch?.state === 'open' && <ActionButton action={seal(id)} after={after} />}
            {dead.length > 0 && <ActionButton action={together('retry', id, flow, dead.length)} after={after} />}
            {open.length > 0 && <ActionButton action={together('cancel', id, flow, open.length)} after={after} kind="danger" />}
        </>
    );
}

const seal = (id: string): Action => ({
    label: 'Seal',
    does: `No further jobs join ${id}. Its callback is enqueued when all jobs in it have ended.`,
    done: 'the batch is sealed',
    needs: 'enqueue',
    method: 'POST',
    path: path(['batch', id, 'seal']),
    command: ['batch', 'seal', id],
    ask: true,
});

/** Retries the dead jobs of a flow, or cancels those that are open: by a filter where there is one, otherwise by their ids. */
function together(what: 'retry' | 'cancel', id: string, flow: Flow, n: number): Action {
    const states = what === 'retry' ? ['dead'] : ['scheduled', 'blocked', 'pending', 'active', 'retrying', 'held'];
    const field = id.startsWith('batch_') ? 'batch_id' : id.startsWith('chain_') ? 'chain_id' : null;
    const ids = jobsOf(flow)
        .filter((node) => states.includes(node.state))
        .map((node) => node.id);
    const many = field && flow.truncated ? `all jobs of this flow that are ${what === 'retry' ? 'dead' : 'open'}` : plural(n, what === 'retry' ? 'dead job' : 'open job');
    return {
        label: what === 'retry' ? `Retry ${count(n)} dead` : 'Cancel',
        does: what === 'retry' ? `Retries ${many}; their attempts start again at 1.` : `Cancels ${many}. Those that run are asked to stop. Jobs that depend on them follow their own policy.`,
        done: what === 'retry' ? `${plural(n, 'job')} retried` : `${plural(n, 'job')} cancelled`,
        needs: 'operate',
        method: 'POST',
        path: '/jobs/bulk',
        body: field ? { action: what, filter: { [field]: id, state: states } } : { action: what, job_ids: ids },
        command: field ? ['bulk', what, field === 'batch_id' ? '--batch-id' : '--chain-id', id, '--state', states.join(',')] : ['bulk', what, ...ids],
        final: what === 'cancel',
        ask: true,
    };
}
