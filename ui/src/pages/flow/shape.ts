// The shape of a flow: what the server tells of it, where each node is drawn, and which node is below which.

export interface FlowNode {
    id: string;
    kind: 'job' | 'batch' | 'more';
    /** The queue of a job, or what a batch counts. */
    label: string;
    state: string;
    percent: number;
    /** The top left corner, from the server's layout. */
    x?: number;
    y?: number;
    created_at?: string;
    started_at?: string;
    ended_at?: string;
}

export interface FlowEdge {
    from: string;
    to: string;
    kind: 'needs' | 'child' | 'step' | 'member';
    /** Drawn only while one of its ends is pointed at. */
    loose?: boolean;
}

export interface Flow {
    id: string;
    nodes: FlowNode[];
    edges: FlowEdge[];
    truncated: boolean;
    width?: number;
    height?: number;
    node_width?: number;
    node_height?: number;
}

export interface Layout {
    width: number;
    height: number;
    nodeWidth: number;
    nodeHeight: number;
    at: Map<string, { x: number; y: number }>;
}

const NODE_WIDTH = 180;
const NODE_HEIGHT = 44;
const EDGE = 20;

/** Where the server placed each node; null if it did not. */
export function layout(flow: Flow): Layout | null {
    const nodeWidth = flow.node_width ?? NODE_WIDTH;
    const nodeHeight = flow.node_height ?? NODE_HEIGHT;
    const at = new Map<string, { x: number; y: number }>();
    let [right, low] = [0, 0];
    for (const node of flow.nodes) {
        if (node.x === undefined || node.y === undefined) return null;
        at.set(node.id, { x: node.x, y: node.y });
        right = Math.max(right, node.x + nodeWidth + EDGE);
        low = Math.max(low, node.y + nodeHeight + EDGE);
    }
    return { width: Math.max(flow.width ?? 0, right), height: Math.max(flow.height ?? 0, low), nodeWidth, nodeHeight, at };
}

export const isEnded = (state: string) => state === 'completed' || state === 'dead' || state === 'cancelled' || state === 'finished';
export const jobsOf = (flow: Flow) => flow.nodes.filter((node) => node.kind === 'job');

/** How many jobs are in each state, those that matter first. */
export function tally(flow: Flow, states: readonly string[]): { state: string; count: number }[] {
    const counts = new Map<string, number>();
    for (const node of jobsOf(flow)) counts.set(node.state, (counts.get(node.state) ?? 0) + 1);
    return states.filter((state) => counts.has(state)).map((state) => ({ state, count: counts.get(state) ?? 0 }));
}

export interface Below {
    node: FlowNode;
    depth: number;
    /** By which edge it is below the one above it. */
    by: FlowEdge['kind'] | null;
}

/** A member is below its batch, whose edge runs the other way. */
const ends = (edge: FlowEdge): [above: string, below: string] => (edge.kind === 'member' ? [edge.to, edge.from] : [edge.from, edge.to]);
/** A node that several others lead to is below the one that made it. */
const FIRST: FlowEdge['kind'][] = ['child', 'member', 'step', 'needs'];

/** All nodes as an indented list: each below the one that it came from, roots first. */
export function indented(flow: Flow): Below[] {
    const nodes = new Map(flow.nodes.map((node) => [node.id, node]));
    const above = new Map<string, string>();
    const below = new Map<string, { id: string; by: FlowEdge['kind'] }[]>();
    for (const kind of FIRST) {
        for (const edge of flow.edges) {
            if (edge.kind !== kind) continue;
            const [from, to] = ends(edge);
            if (above.has(to) || leadsTo(above, from, to)) continue;
            above.set(to, from);
            below.set(from, [...(below.get(from) ?? []), { id: to, by: kind }]);
        }
    }
    const found: Below[] = [];
    const walk = (id: string, depth: number, by: FlowEdge['kind'] | null) => {
        const node = nodes.get(id);
        if (!node) return;
        // The steps of a chain follow each other; each one deeper would be unreadable after ten.
        found.push({ node, depth, by });
        for (const next of below.get(id) ?? []) walk(next.id, next.by === 'step' && by === 'step' ? depth : depth + 1, next.by);
    };
    for (const node of flow.nodes) if (!above.has(node.id)) walk(node.id, 0, null);
    return found;
}

/** Whether `from` is below `to` already; then `to` cannot be below it. */
function leadsTo(above: Map<string, string>, from: string, to: string): boolean {
    for (let at: string | undefined = from; at !== undefined; at = above.get(at)) if (at === to) return true;
    return false;
}
