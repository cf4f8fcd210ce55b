// What the handlers of a queue recorded, by key, and which of it is marked.
import { useState } from 'preact/hooks';
import { Dialog, Empty, Failed, get, JobLink, JsonText, Loading, Panel, path, query, refusal, send, setQuery, show, StatePill, Table, Time, useResource, type Column } from '#kit';

interface Entry {
    key: string;
    value: unknown;
    mark: string | null;
    job_id: string;
    updated_at: string;
}

const PAGE = 25;

const open = (name: string, key: string) => show((close) => <One name={name} of={key} close={close} />);

const columns = (name: string): Column<Entry>[] => [
    {
        key: 'key',
        title: 'Key',
        cell: (entry) => (
            <button type="button" class="quiet small mono clip" title={entry.key} onClick={() => open(name, entry.key)}>
                {entry.key}
            </button>
        ),
    },
    { key: 'mark', title: 'Mark', width: '130px', cell: (entry) => entry.mark !== null && <StatePill of="retrying">{entry.mark}</StatePill> },
    { key: 'value', title: 'Value', from: 's', cell: (entry) => <span class="mono dim">{(JSON.stringify(entry.value) ?? '').slice(0, 120)}</span> },
    { key: 'job', title: 'Written by', width: '110px', from: 'm', cell: (entry) => <JobLink id={entry.job_id} /> },
    { key: 'at', title: 'Written', width: '90px', num: true, from: 'm', cell: (entry) => <Time at={entry.updated_at} /> },
];

export function Records({ name }: { name: string }) {
    const marked = query.value.get('marked') === '1';
    const from = query.value.get('key') ?? '';
    const [typed, type] = useState(from);
    const key = `records ${name} ${marked} ${from}`;
    const found = useResource(key, (signal) => get<{ records: Entry[]; next?: string }>(path(['queues', name, 'records'], { marked, from, limit: PAGE }), signal), { everyMs: 3000, keep: true });
    const search = (event: Event) => {
        event.preventDefault();
        setQuery({ key: typed });
    };
    return (
        <Panel
            title="Records"
            aside={
                <form class="row wrap" onSubmit={search}>
                    <input type="search" data-filter aria-label="Records from this key on" placeholder="from this key on" value={typed} onInput={(event) => type(event.currentTarget.value)} />
                    <button type="button" class="chip" aria-pressed={marked} onClick={() => setQuery({ marked: marked ? null : '1' })}>
                        marked
                    </button>
                </form>
            }
            flush
        >
            {found.error && !found.data ? (
                <Failed error={found.error} retry={found.reload} />
            ) : !found.data ? (
                <Loading />
            ) : (
                <Table
                    label="Records"
                    columns={columns(name)}
                    rows={found.data.records}
                    rowKey={(entry) => entry.key}
                    empty={<Empty title={marked ? 'No record is marked' : from ? 'There is no such key, and none after it' : 'No handler of this queue has stored a record'} />}
                    foot={
                        (from || found.data.next) && (
                            <div class="table-foot">
                                {from && (
                                    <button type="button" class="quiet" onClick={() => (type(''), setQuery({ key: null }))}>
                                        From the first
                                    </button>
                                )}
                                {found.data.next && (
                                    <button type="button" class="quiet" onClick={() => setQuery({ key: found.data?.next }, { push: true })}>
                                        More
                                    </button>
                                )}
                            </div>
                        )
                    }
                />
            )}
        </Panel>
    );
}

/** The record as the server sends it: its numbers stay as they are. */
function One({ name, of, close }: { name: string; of: string; close(): void }) {
    const found = useResource(`record ${name} ${of}`, async (signal) => {
        const response = await send('GET', path(['queues', name, 'records'], { key: of }), { signal });
        if (!response.ok) throw await refusal(response);
        return response.text();
    });
    return (
        <Dialog title="Record" onClose={close} wide>
            {found.error ? <Failed error={found.error} /> : found.data === undefined ? <Loading /> : <JsonText text={found.data} label="The record" />}
        </Dialog>
    );
}
