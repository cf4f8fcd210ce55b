// A flow as an indented list: what came from what. It shows the same as the graph, for the keyboard, screen readers and narrow windows.
import { useMemo } from 'preact/hooks';
import { Meter, shortId, span, StatePill, Table, type Column } from '#kit';
import { nodeHref } from './graph';
import { indented, type Below, type Flow } from './shape';

/** What an edge means, seen from below. */
const BY = { child: 'child', step: 'step', member: 'member', needs: 'after it' } as const;
const DEEPEST = 8;

const took = ({ node }: Below) => (node.started_at && node.ended_at ? span(Date.parse(node.ended_at) - Date.parse(node.started_at)) : '');

const columns: Column<Below>[] = [
    {
        key: 'name',
        title: 'Job',
        cell: ({ node, depth, by }) => (
            <span style={{ paddingLeft: `${Math.min(depth, DEEPEST) * 14}px` }} title={node.id}>
                {by && <span class="dimmer">{BY[by]} · </span>}
                {node.kind === 'more' ? <span class="dim">{node.label}</span> : <a href={nodeHref(node)}>{node.label || shortId(node.id)}</a>}
            </span>
        ),
    },
    { key: 'id', title: 'Id', width: '120px', from: 'm', cell: ({ node }) => <span class="mono dim">{node.kind === 'more' ? '' : shortId(node.id)}</span> },
    { key: 'state', title: 'State', width: '110px', cell: ({ node }) => node.state && <StatePill of={node.state} /> },
    { key: 'took', title: 'Ran', width: '90px', num: true, from: 's', cell: took },
    {
        key: 'part',
        title: 'Done',
        width: '152px',
        from: 's',
        cell: ({ node }) =>
            node.kind === 'more' ? null : (
                <span class="gauge">
                    <Meter value={node.percent} of={100} label={`done of ${node.label}`} state={node.state === 'dead' ? 'dead' : node.percent >= 100 ? 'completed' : 'active'} />
                    {Math.floor(node.percent)} %
                </span>
            ),
    },
];

export function Tree({ flow }: { flow: Flow }) {
    const rows = useMemo(() => indented(flow), [flow]);
    return <Table label="Jobs of the flow" columns={columns} rows={rows} rowKey={(row) => row.node.id} href={(row) => nodeHref(row.node)} />;
}
