// Reads a flow. The server draws what is connected; the members of a batch that nothing else connects are added here, from the search.
import { get, path, post, type Job, type Search } from '#kit';
import type { Flow, FlowNode } from './shape';

/** As many as a flow shows. */
const MOST = 300;
const GAP = 16;
const MARGIN = 20;
/** Between a block of jobs and their batch. */
const BESIDE = 60;

export async function readFlow(id: string, signal: AbortSignal): Promise<Flow> {
    const flow = await get<Flow>(path(['flows', id]), signal);
    const complete = !id.startsWith('batch_') || flow.edges.some((edge) => edge.kind === 'member' && edge.to === id);
    if (complete) return flow;
    const members = await post<Search>('/jobs/search', { batch_id: id, payload: 'none', sort: 'created_at', order: 'asc', limit: MOST }, signal);
    const first = members.jobs[0];
    const connected = first ? await get<Flow>(path(['flows', first.id]), signal) : flow;
    return withMembers(connected, members, id);
}

function withMembers(flow: Flow, members: Search, batch: string): Flow {
    const [width, height] = [flow.node_width ?? 180, flow.node_height ?? 44];
    const placed = flow.nodes.every((node) => node.x !== undefined);
    // A batch whose jobs are connected by nothing else is drawn as a block of them, with the batch beside it.
    const plain = flow.edges.every((edge) => edge.kind === 'member' || edge.from === batch);
    const kept = flow.nodes.filter((node) => !plain || !members.jobs.some((job) => job.id === node.id));
    const known = new Set(kept.map((node) => node.id));
    const loose = members.jobs.filter((job) => !known.has(job.id)).slice(0, MOST - kept.length);
    const top = plain ? MARGIN : Math.max(0, ...kept.map((node) => (node.y ?? 0) + height + 2 * GAP));
    // Of about the shape of a window: they have no order among themselves.
    const columns = Math.max(1, plain ? Math.min(loose.length, 3) : 4, Math.ceil(Math.sqrt(loose.length / 3)));
    const nodes = loose.map((job, at): FlowNode => {
        const place = placed ? { x: MARGIN + (at % columns) * (width + GAP), y: top + Math.floor(at / columns) * (height + GAP) } : {};
        return { id: job.id, kind: 'job', label: job.queue, state: job.state, percent: done(job), created_at: job.created_at, started_at: job.started_at, ended_at: job.completed_at ?? job.failed_at, ...place };
    });
    const rows = Math.ceil(loose.length / columns);
    const beside = { x: MARGIN + columns * (width + GAP) + BESIDE, y: MARGIN + ((Math.max(rows, 1) - 1) * (height + GAP)) / 2 };
    // The batch, and after it its callback.
    const others = plain && placed ? kept.map((node) => ({ ...node, ...beside, x: beside.x + (node.id === batch ? 0 : width + BESIDE) })) : kept;
    const edges = members.jobs.filter((job) => !flow.edges.some((edge) => edge.from === job.id && edge.to === batch)).map((job) => ({ from: job.id, to: batch, kind: 'member' as const, loose: true }));
    const drawn = flow.edges.map((edge) => (plain && edge.kind === 'member' ? { ...edge, loose: true } : edge));
    return { ...flow, id: batch, nodes: [...others, ...nodes], edges: [...drawn, ...edges], truncated: flow.truncated || members.total > members.jobs.length, height: undefined, width: undefined };
}

const done = (job: Job) => (job.state === 'completed' || job.state === 'dead' || job.state === 'cancelled' ? 100 : (job.progress?.percent ?? 0));
