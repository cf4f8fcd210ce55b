// How a queue looks in a table: the same on the overview and on the list of queues.
import { useMemo } from 'preact/hooks';
import { get } from '../api/client';
import type { QueueRow } from '../api/types';
import * as live from '../app/live';
import { useResource } from '../app/resource';
import { href } from '../app/router';
import { Meter, QueueLink } from './basics';
import { Spark } from './chart/spark';
import { count, now, rate, roughly } from './format';
import type { Column } from './table';

interface Steps {
    queues: Record<string, { completed: number[] }>;
}

/** The columns, with a line of what each queue has completed in the last ten minutes. */
export function useQueueColumns(): Column<QueueRow>[] {
    const steps = useResource('stats of queues', (signal) => get<Steps>('/stats/queues?window=10m&step=10s', signal), { everyMs: 10_000 });
    return useMemo(() => columns.map((one) => (one.key === 'line' ? { ...one, cell: (queue) => <Lately completed={steps.data?.queues[queue.name]?.completed} /> } : one)), [steps.data]);
}

const Lately = ({ completed = [] }: { completed?: number[] }) => {
    const said = `${count(completed.reduce((all, one) => all + one, 0))} completed`;
    return (
        <span title={said}>
            <Spark values={completed} state="completed" width={88} />
            <span class="sr">{said}</span>
        </span>
    );
};

const columns: Column<QueueRow>[] = [
    { key: 'name', title: 'Queue', cell: (queue) => <QueueLink name={queue.name} />, sort: 'name' },
    { key: 'served', title: 'Served by', from: 'm', cell: (queue) => <ServedBy queue={queue} /> },
    { key: 'pending', title: 'Waiting', num: true, width: '84px', sort: 'pending', cell: (queue) => count(queue.pending) },
    { key: 'active', title: 'Running', width: '150px', from: 's', sort: 'active', cell: (queue) => <Running queue={queue} /> },
    { key: 'rate', title: 'Done /s', num: true, width: '76px', sort: 'completed_per_second', cell: (queue) => rate(queue.completed_per_second) },
    { key: 'line', title: 'Last 10 min', width: '106px', from: 'l', cell: () => null },
    { key: 'came', title: 'New /s', num: true, width: '76px', from: 'l', sort: 'enqueued_per_second', cell: (queue) => rate(queue.enqueued_per_second) },
    { key: 'oldest', title: 'Oldest', num: true, width: '72px', from: 'm', sort: 'oldest', cell: (queue) => <Oldest at={queue.oldest_pending_at} /> },
    { key: 'retrying', title: 'Retrying', num: true, width: '80px', from: 'l', sort: 'retrying', cell: (queue) => quiet(queue.retrying) },
    { key: 'dead', title: 'Dead', num: true, width: '68px', from: 's', sort: 'dead', cell: (queue) => <span class={queue.dead ? 'dead-ink' : 'dimmer'}>{count(queue.dead)}</span> },
];

const quiet = (value: number) => <span class={value ? '' : 'dimmer'}>{count(value)}</span>;

export function ServedBy({ queue }: { queue: QueueRow }) {
    const workers = live.workers.value.filter((worker) => worker.queues.includes(queue.name)).length;
    if (queue.served_by) return <a href={href(`/plugins/${encodeURIComponent(queue.served_by)}`)}>{queue.served_by}</a>;
    if (workers > 0) return <span class="dim">workers · {workers}</span>;
    return <span class={queue.pending > 0 ? 'warn-line' : 'dimmer'}>nobody</span>;
}

export function Running({ queue }: { queue: QueueRow }) {
    if (queue.draining) return <span class="warn-line">draining · {queue.active} left</span>;
    if (queue.paused) return <span class="warn-line">paused{queue.active ? ` · ${queue.active} left` : ''}</span>;
    if (!queue.max_concurrency) return quiet(queue.active);
    return (
        <span class="gauge">
            <Meter value={queue.active} of={queue.max_concurrency} label={`running in ${queue.name}`} />
            {queue.active} / {queue.max_concurrency}
        </span>
    );
}

const Oldest = ({ at }: { at: string | null }) => (at ? <>{roughly(now.value - Date.parse(at))}</> : <span class="dimmer">–</span>);

/** The value that a column sorts by. */
function sortValue(queue: QueueRow, by: string): number | string {
    if (by === 'name') return queue.name;
    // The one that waits longest is the largest.
    if (by === 'oldest') return queue.oldest_pending_at ? -Date.parse(queue.oldest_pending_at) : -Infinity;
    return (queue as unknown as Record<string, number | null>)[by] ?? -1;
}

export function sortedQueues(queues: QueueRow[], by: string, down: boolean): QueueRow[] {
    const order = down ? -1 : 1;
    return [...queues].sort((left, right) => {
        const [a, b] = [sortValue(left, by), sortValue(right, by)];
        if (a === b) return left.name.localeCompare(right.name);
        return (a < b ? -1 : 1) * order;
    });
}

export const queueHref = (queue: QueueRow) => href(`/queues/${encodeURIComponent(queue.name)}`);
