// Dead letters: what failed for good, grouped by its error, so that one press brings a group back.
import { useState } from 'preact/hooks';
import {
    BulkButtons, count, Empty, Failed, get, href, JobList, jobColumns, JobLink, JsonText, live, Loading, PageHead, Panel, path, PlainText, post, query, QueueLink, setQuery, Tabs, Time,
    useResource, shortDigest, type Column, type DeadGroup, type Job, type Search, type WholeJob,
} from '#kit';

interface Groups {
    total: number;
    looked_at: number;
    complete: boolean;
    groups_total: number;
    groups: DeadGroup[];
}

const ACTIONS = ['retry', 'requeue', 'move', 'delete'];
const time: Column<Job> = { key: 'died', title: 'Died', num: true, width: '92px', sort: 'failed_at', cell: (job) => <Time at={job.failed_at ?? job.updated_at} /> };

export default function Dead() {
    const queue = query.value.get('queue') ?? '';
    const group = query.value.get('group') ?? '';
    const tab = group || query.value.get('tab') === 'jobs' ? 'jobs' : 'groups';
    const groups = useResource(`dead groups ${queue}`, (signal) => get<Groups>(path(['dead', 'groups'], { queue, limit: 100 }), signal), { everyMs: 4000, keep: true });
    const chosen = groups.data?.groups.find((one) => one.fingerprint === group);
    const queues = Object.values(live.queues.value).filter((row) => row.dead > 0).map((row) => row.name);
    return (
        <>
            <PageHead
                title="Dead letters"
                about={live.known.value ? `${count(live.totals.value.dead ?? 0)} jobs that will not run again by themselves` : undefined}
                actions={
                    <label>
                        <span class="sr">Queue</span>
                        <select value={queue} onChange={(event) => setQuery({ queue: event.currentTarget.value, group: null })}>
                            <option value="">all queues</option>
                            {[...new Set([...queues, ...(queue ? [queue] : [])])].sort().map((name) => (
                                <option key={name}>{name}</option>
                            ))}
                        </select>
                    </label>
                }
            />
            <Tabs
                label="How they are shown"
                tabs={[
                    { key: 'groups', title: 'By error' },
                    { key: 'jobs', title: group ? 'Jobs of one error' : 'Each job' },
                ]}
                current={tab}
                href={(key) => href('/dead', { queue, tab: key === 'jobs' ? 'jobs' : '' })}
            />
            {tab === 'groups' && <GroupList found={groups.data} error={groups.error} reload={groups.reload} queue={queue} />}
            {tab === 'jobs' && (
                <>
                    {group && (chosen ? <GroupPart group={chosen} queue={queue} reload={groups.reload} alone /> : groups.data && <Unlisted fingerprint={group} queue={queue} reload={groups.reload} />)}
                    <JobList
                        label="Dead jobs"
                        base={{ state: ['dead'], ...(queue ? { queue } : {}), ...(group ? { error_fingerprint: group } : {}) }}
                        states={[]}
                        order={{ by: 'failed_at', down: true }}
                        actions={ACTIONS}
                        columns={jobColumns({ state: false, time })}
                        empty={<NoneDead />}
                    />
                </>
            )}
        </>
    );
}

const NoneDead = () => <Empty title="No job is dead">A job that fails with every attempt it has comes here, with its errors, and can be run again.</Empty>;

function GroupList({ found, error, reload, queue }: { found?: Groups; error?: Error; reload(): void; queue: string }) {
    if (error && !found) return <Failed error={error} retry={reload} />;
    if (!found) return <Loading rows={6} />;
    if (found.groups.length === 0) return <NoneDead />;
    return (
        <>
            {found.groups.map((group) => (
                <GroupPart key={group.fingerprint} group={group} queue={queue} reload={reload} />
            ))}
            {!found.complete && (
                <p class="dim">
                    Counted in the latest {count(found.looked_at)} of {count(found.total)} dead jobs. An action on a group reaches all of its jobs.
                </p>
            )}
            {found.groups_total > found.groups.length && <p class="dim">{count(found.groups_total - found.groups.length)} smaller groups are not shown; choose a queue to see them.</p>}
        </>
    );
}

/** A group that is too small or too old to be among those that were listed: what the search tells of it. */
function Unlisted({ fingerprint, queue, reload }: { fingerprint: string; queue: string; reload(): void }) {
    const filter = { state: ['dead'], error_fingerprint: fingerprint, ...(queue ? { queue } : {}) };
    const edge = (order: string) => (signal: AbortSignal) => post<Search>('/jobs/search', { ...filter, payload: 'none', sort: 'failed_at', order, limit: 1 }, signal);
    const last = useResource(`last of ${fingerprint} ${queue}`, edge('desc'), { everyMs: 4000, keep: true });
    const first = useResource(`first of ${fingerprint} ${queue}`, edge('asc'), { everyMs: 4000, keep: true });
    const [newest, oldest] = [last.data?.jobs[0], first.data?.jobs[0]];
    if (!newest || !oldest) return null;
    const group: DeadGroup = {
        fingerprint,
        pattern: '',
        count: last.data?.total ?? 0,
        queues: [{ queue: newest.queue, count: last.data?.total ?? 0 }],
        sample_error: newest.last_error ?? '',
        sample_job_id: newest.id,
        first_at: oldest.failed_at ?? oldest.updated_at,
        last_at: newest.failed_at ?? newest.updated_at,
        versions: [],
    };
    return <GroupPart group={group} queue={queue} reload={reload} alone />;
}

function GroupPart({ group, queue, reload, alone }: { group: DeadGroup; queue: string; reload(): void; alone?: boolean }) {
    const [whole, setWhole] = useState(false);
    const { fingerprint } = group;
    const filter = { state: ['dead'], error_fingerprint: fingerprint, ...(queue ? { queue } : {}) };
    const address = href('/dead', { queue, group: fingerprint });
    return (
        <Panel label={`Jobs that died of: ${group.sample_error.slice(0, 80)}`} class="group">
            <div class="group-grid">
                <a class="group-count" href={address}>
                    {count(group.count)}
                    <span class="dim"> {group.count === 1 ? 'job' : 'jobs'}</span>
                </a>
                <div class="group-about">
                    <p class={`mono ${whole ? 'error-text' : 'two-lines'}`} tabIndex={whole ? 0 : undefined}>{group.sample_error || 'no error was given'}</p>
                    <p class="dim">
                        {group.queues.slice(0, 4).map((one, at) => (
                            <span key={one.queue}>
                                {at > 0 && ', '}
                                <QueueLink name={one.queue} /> {group.queues.length > 1 && count(one.count)}
                            </span>
                        ))}
                        {group.queues.length > 4 && ` and ${group.queues.length - 4} more`}
                        {group.versions.slice(0, 3).map((one) => (
                            <span key={one.plugin_version ?? 'worker'}> · {one.worker ? 'workers' : <>{one.plugin} <span class="mono">{shortDigest(one.plugin_version ?? '')}</span></>}</span>
                        ))}
                        {' · first '}
                        <Time at={group.first_at} />, last <Time at={group.last_at} /> · <JobLink id={group.sample_job_id} />
                    </p>
                </div>
                <div class="acts">
                    <BulkButtons which={{ filter }} actions={alone ? ACTIONS : ['retry', 'move', 'delete']} after={reload} />
                    <button type="button" class="quiet" aria-expanded={whole} onClick={() => setWhole(!whole)}>
                        {whole ? 'Less' : 'Sample'}
                    </button>
                </div>
            </div>
            {whole && <Sample id={group.sample_job_id} />}
        </Panel>
    );
}

/** The latest job of a group: where it failed, and with what. */
function Sample({ id }: { id: string }) {
    const found = useResource(`sample ${id}`, (signal) => get<WholeJob>(path(['jobs', id], { payload: 'preview' }), signal));
    if (found.error) return <Failed error={found.error} retry={found.reload} />;
    if (!found.data) return <Loading rows={3} />;
    const { errors, payload_preview: payload } = found.data;
    const backtrace = errors.at(-1)?.backtrace;
    return (
        <div class="stack group-sample">
            {backtrace && (
                <pre class="backtrace" tabIndex={0} aria-label="Backtrace">
                    {backtrace}
                </pre>
            )}
            <p class="dim">
                Payload of <JobLink id={id} />
                {payload?.truncated && ', the beginning'}
            </p>
            {!payload ? <p class="dim">It has none.</p> : payload.truncated || payload.encoding !== 'text' ? <PlainText text={payload.text} label="payload" /> : <JsonText text={payload.text} label="payload" />}
        </div>
    );
}
