// All queues: what waits, runs and fails in each, live.
import { useMemo } from 'preact/hooks';
import { count, Empty, go, href, live, Loading, PageHead, Panel, query, queueHref, setQuery, sortedQueues, Table, useQueueColumns } from '#kit';

export default function Queues() {
    const search = query.value.get('q') ?? '';
    const only = query.value.get('only') ?? '';
    const by = query.value.get('sort') ?? 'name';
    const down = query.value.get('order') === 'desc';
    const columns = useQueueColumns();
    const all = Object.values(live.queues.value);
    const shown = useMemo(() => {
        const fits = all.filter((queue) => queue.name.toLowerCase().includes(search.toLowerCase()) && (only === '' || (only === 'failing' ? queue.dead + queue.retrying > 0 : only === 'waiting' ? queue.pending > 0 : queue.paused)));
        return sortedQueues(fits, by, down);
    }, [live.queues.value, search, only, by, down]);
    return (
        <>
            <PageHead title="Queues" about={live.known.value ? `${count(all.length)} queues` : undefined} />
            <div class="filters">
                <input type="search" data-filter aria-label="Filter by name" placeholder="Filter by name" value={search} onInput={(event) => setQuery({ q: event.currentTarget.value })} />
                <div class="chips" role="group" aria-label="Only those">
                    {['waiting', 'failing', 'paused'].map((word) => (
                        <button key={word} type="button" class="chip" aria-pressed={only === word} onClick={() => setQuery({ only: only === word ? null : word })}>
                            {word}
                        </button>
                    ))}
                </div>
            </div>
            <Panel label="Queues" flush>
                {!live.known.value ? (
                    <Loading rows={6} />
                ) : (
                    <Table
                        label="Queues"
                        columns={columns}
                        rows={shown}
                        rowKey={(queue) => queue.name}
                        href={queueHref}
                        sort={{ by, down, set: (by, down) => setQuery({ sort: by, order: down ? 'desc' : null }) }}
                        empty={
                            all.length === 0 ? (
                                <Empty title="There are no queues yet" command={'windlass enqueue hello \'{"to": 10}\''}>
                                    A queue begins with the first job that is enqueued to it. A plugin or a worker then runs its jobs.
                                </Empty>
                            ) : (
                                <Empty title="No queue fits">
                                    <button type="button" onClick={() => go(href('/queues'))}>
                                        Show all {all.length}
                                    </button>
                                </Empty>
                            )
                        }
                    />
                )}
            </Panel>
        </>
    );
}
