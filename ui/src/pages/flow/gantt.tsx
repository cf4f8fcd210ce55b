// A flow over time: when each job waited, and when it ran.
import { useMemo } from 'preact/hooks';
import { clockTime, Empty, now, roughly, shortId, span, StatePill, times } from '#kit';
import { nodeHref } from './graph';
import { isEnded, jobsOf, type Flow, type FlowNode } from './shape';

interface Row {
    node: FlowNode;
    created: number;
    started: number | null;
    ended: number | null;
}

const ms = (at: string | undefined) => (at ? Date.parse(at) : null);
const TICKS = 5;

export function Gantt({ flow }: { flow: Flow }) {
    const rows = useMemo(() => {
        const found: Row[] = [];
        for (const node of jobsOf(flow)) {
            const created = ms(node.created_at);
            if (created !== null) found.push({ node, created, started: ms(node.started_at), ended: ms(node.ended_at) });
        }
        return found.sort((a, b) => (a.started ?? Infinity) - (b.started ?? Infinity) || a.created - b.created);
    }, [flow]);
    if (rows.length === 0) return <Empty title="No times are known">{flow.nodes.length > 0 && 'Jobs that are in the flow but have not been enqueued yet have none.'}</Empty>;
    const open = rows.some((row) => !isEnded(row.node.state));
    const first = Math.min(...rows.map((row) => row.created));
    const last = Math.max(open ? now.value : 0, first + 1, ...rows.map((row) => row.ended ?? row.started ?? row.created));
    const place = (at: number) => `${((at - first) / (last - first)) * 100}%`;
    const utc = times.value === 'utc';
    return (
        <div class="gantt">
            <div class="gantt-axis" aria-hidden="true">
                <span />
                <div>
                    {Array.from({ length: TICKS }, (_, at) => {
                        const when = first + ((last - first) * at) / (TICKS - 1);
                        return (
                            <span key={at} style={{ left: place(when) }}>
                                {last - first < 10_000 ? `+${span(when - first)}` : clockTime(new Date(when), utc)}
                            </span>
                        );
                    })}
                </div>
            </div>
            <ul aria-label="Jobs over time">
                {rows.map((row) => (
                    <li key={row.node.id} class={`is-${row.node.state}`}>
                        <a href={nodeHref(row.node)} title={row.node.id}>
                            <span class="clip">{row.node.label || shortId(row.node.id)}</span>
                            <StatePill of={row.node.state} />
                        </a>
                        <div class="gantt-track">
                            <Bars row={row} last={last} place={place} />
                        </div>
                        <span class="num dim">{said(row, last)}</span>
                    </li>
                ))}
            </ul>
            <p class="legend">
                <span class="gantt-key waits">waited</span>
                <span class="gantt-key ran">ran, in the colour of its state</span>
                <span class="push">{roughly(last - first)} in all</span>
            </p>
        </div>
    );
}

function Bars({ row, last, place }: { row: Row; last: number; place(at: number): string }) {
    const until = row.started ?? row.ended ?? (isEnded(row.node.state) ? row.created : last);
    const end = row.ended ?? (row.node.state === 'active' ? last : row.started);
    const between = (from: number, to: number) => ({ left: place(from), right: `calc(100% - ${place(to)})` });
    return (
        <>
            {until > row.created && <i class="waits" style={between(row.created, until)} />}
            {row.started !== null && end !== null && <i class={`ran ${row.ended === null && row.node.state === 'active' ? 'now' : ''}`} style={between(row.started, Math.max(end, row.started))} />}
        </>
    );
}

function said(row: Row, last: number): string {
    if (row.started === null) return isEnded(row.node.state) ? 'never ran' : `waits ${roughly(last - row.created)}`;
    if (row.ended !== null) return span(row.ended - row.started);
    return row.node.state === 'active' ? `runs ${roughly(last - row.started)}` : row.node.state;
}
