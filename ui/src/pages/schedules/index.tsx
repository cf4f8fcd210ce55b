// Schedules: when each enqueues its next job, what its last ones did, and which runs it skipped.
import { useEffect } from 'preact/hooks';
import {
    ActionButton, count, Empty, Facts, Failed, get, go, href, JobLink, JsonText, Loading, may, notify, PageHead, Panel, path, plural, post, query, QueueLink, setQuery, setTitle, show, StatePill, Table, Time,
    useResource, usePaletteEntries, type Column, type Job,
} from '#kit';
import { Edit, inZone, Times } from './edit';
import { readSchedule, removing, running, switching, type Schedule, type Skipped } from './schedule';

const scheduleHref = (schedule: Schedule) => href('/schedules', { name: schedule.name });

export default function Schedules() {
    const name = query.value.get('name');
    useEffect(() => setTitle(name ?? 'Schedules'), [name]);
    return name ? <One key={name} name={name} /> : <All />;
}

const columns: Column<Schedule>[] = [
    { key: 'name', title: 'Schedule', cell: (schedule) => <a href={scheduleHref(schedule)} title={schedule.name}>{schedule.name}</a> },
    { key: 'when', title: 'Runs', from: 's', cell: (schedule) => <span title={`${schedule.cron} ${schedule.timezone}`}>{schedule.words ?? <span class="mono">{schedule.cron}</span>}</span> },
    { key: 'zone', title: 'Zone', width: '120px', from: 'l', cell: (schedule) => <span class="dim">{schedule.timezone}</span> },
    { key: 'queue', title: 'Queue', from: 'm', cell: (schedule) => <QueueLink name={schedule.queue} /> },
    { key: 'next', title: 'Next', width: '110px', cell: (schedule) => (schedule.paused ? <StatePill of="retrying">paused</StatePill> : <Time at={schedule.next_run} future />) },
    { key: 'last', title: 'Last', width: '100px', from: 's', cell: (schedule) => <Time at={schedule.last_run} /> },
    { key: 'skipped', title: 'Skipped', num: true, width: '76px', from: 'm', cell: (schedule) => <span class={schedule.skipped_total ? '' : 'dimmer'}>{count(schedule.skipped_total)}</span> },
];

function All() {
    const search = (query.value.get('q') ?? '').toLowerCase();
    const found = useResource('schedules', (signal) => get<Schedule[]>('/schedules', signal), { everyMs: 3000 });
    const create = () => show((close) => <Edit close={close} after={(name) => go(href('/schedules', { name }))} />);
    usePaletteEntries(may('operate') ? [{ text: 'New schedule', kind: 'action', run: create }] : [], []);
    const fits = found.data?.filter((schedule) => `${schedule.name} ${schedule.queue} ${schedule.cron}`.toLowerCase().includes(search)) ?? [];
    return (
        <>
            <PageHead
                title="Schedules"
                about={found.data ? count(found.data.length) : undefined}
                actions={
                    may('operate') && (
                        <button type="button" class="main" onClick={create}>
                            New schedule
                        </button>
                    )
                }
            />
            <div class="filters">
                <input type="search" data-filter aria-label="Filter schedules" placeholder="Filter by name, queue or cron" value={query.value.get('q') ?? ''} onInput={(event) => setQuery({ q: event.currentTarget.value })} />
            </div>
            <Panel label="Schedules" flush>
                {found.error && !found.data ? (
                    <Failed error={found.error} retry={found.reload} />
                ) : !found.data ? (
                    <Loading />
                ) : (
                    <Table
                        label="Schedules"
                        columns={columns}
                        rows={fits}
                        rowKey={(schedule) => schedule.name}
                        href={scheduleHref}
                        empty={
                            found.data.length ? (
                                <Empty title="No schedule fits" />
                            ) : (
                                <Empty title="There are no schedules yet" command="windlass schedule add nightly '30 2 * * 1-5' reports">
                                    A schedule enqueues a job at set times, such as every night at half past two.
                                </Empty>
                            )
                        }
                    />
                )}
            </Panel>
        </>
    );
}

function One({ name }: { name: string }) {
    const found = useResource(`schedule ${name}`, (signal) => readSchedule(name, signal), { everyMs: 3000 });
    const crumbs = [{ text: 'Schedules', href: href('/schedules') }];
    if (!found.data) {
        return (
            <>
                <PageHead title={name} crumbs={crumbs} />
                {found.error ? <Panel label="Schedule"><Failed error={found.error} retry={found.reload} /></Panel> : <Loading />}
            </>
        );
    }
    const { schedule, payload } = found.data;
    const ran = (answer: unknown) => {
        found.reload();
        const { job_id, skipped } = answer as { job_id: string | null; skipped?: Skipped };
        if (job_id) notify('A job was enqueued', { link: { href: href(`/jobs/${job_id}`), text: 'Show it' } });
        else notify(`The run was skipped: ${skipped?.message ?? 'no job was made'}`, { kind: 'wrong' });
    };
    return (
        <>
            <PageHead
                title={schedule.name}
                crumbs={crumbs}
                about={schedule.paused ? <StatePill of="retrying">paused</StatePill> : <>next <Time at={schedule.next_run} future /></>}
                actions={
                    <>
                        <ActionButton action={running(schedule)} after={ran} />
                        <ActionButton action={switching(schedule)} after={found.reload} />
                        {may('operate') && (
                            <button type="button" onClick={() => show((close) => <Edit of={found.data} close={close} after={found.reload} />)}>
                                Edit
                            </button>
                        )}
                        <ActionButton action={removing(schedule)} after={() => go(href('/schedules'))} />
                    </>
                }
            />
            <div class="split">
                <div>
                    <LastJobs schedule={schedule} />
                    <SkippedRuns schedule={schedule} />
                    <Panel title="Payload of each job">
                        <JsonText text={payload} label="Payload" />
                    </Panel>
                </div>
                <div>
                    <Panel title="What it does">
                        <Facts
                            of={[
                                ['Runs', schedule.words ?? <code>{schedule.cron}</code>],
                                schedule.words && ['Cron', <code>{schedule.cron}</code>],
                                ['Zone', schedule.timezone],
                                ['Queue', <QueueLink name={schedule.queue} />],
                                ['Overlap', { allow: 'runs all the same', skip: 'skips the run', cancel: 'cancels the job before' }[schedule.overlap]],
                                ['Catch up', { skip: 'missed times are skipped', once: 'once for all missed times', all: `for each missed time${schedule.catch_up_most ? `, at most ${count(schedule.catch_up_most)}` : ''}` }[schedule.catch_up]],
                                schedule.unique_key && ['Unique key', schedule.unique_key],
                                schedule.priority && ['Priority', schedule.priority],
                                schedule.max_attempts !== undefined && ['Attempts', schedule.max_attempts],
                                schedule.retry_backoff && ['Retries', schedule.retry_backoff],
                                Object.keys(schedule.tags).length > 0 && ['Tags', Object.entries(schedule.tags).map(([key, value]) => `${key}=${value}`).join(', ')],
                                ['Changed', <Time at={schedule.updated_at} />],
                            ]}
                        />
                    </Panel>
                    <NextTimes schedule={schedule} />
                </div>
            </div>
        </>
    );
}

function NextTimes({ schedule }: { schedule: Schedule }) {
    const found = useResource(`next ${schedule.name} ${schedule.updated_at} ${schedule.next_run}`, (signal) => get<{ next: string[] }>(path(['schedules', schedule.name, 'next'], { count: 8 }), signal), { keep: true });
    return (
        <Panel title={schedule.paused ? 'Would run next' : 'Next times'}>
            {found.error ? <Failed error={found.error} /> : !found.data ? <Loading /> : found.data.next.length ? <Times at={found.data.next} timezone={schedule.timezone} /> : <p class="dim">This expression names no time in the future.</p>}
        </Panel>
    );
}

const jobColumns: Column<Job>[] = [
    { key: 'id', title: 'Job', cell: (job) => <JobLink id={job.id} /> },
    { key: 'state', title: 'State', width: '110px', cell: (job) => <StatePill of={job.state} /> },
    { key: 'at', title: 'Enqueued', width: '110px', num: true, cell: (job) => <Time at={job.created_at} /> },
    { key: 'error', title: 'Error', from: 'm', cell: (job) => <span class="dim" title={job.last_error}>{job.last_error ?? ''}</span> },
];

function LastJobs({ schedule }: { schedule: Schedule }) {
    const key = `jobs of ${schedule.name} ${schedule.last_job_id}`;
    const found = useResource(key, (signal) => post<{ jobs: Job[] }>('/jobs/search', { schedule: schedule.name, payload: 'none', limit: 20 }, signal), { everyMs: 3000, keep: true });
    return (
        <Panel title="Last jobs" aside={<a href={href('/jobs', { q: `schedule:${schedule.name}` })}>all of them</a>} flush>
            {found.error && !found.data ? (
                <Failed error={found.error} retry={found.reload} />
            ) : !found.data ? (
                <Loading />
            ) : (
                <Table label="Last jobs" columns={jobColumns} rows={found.data.jobs} rowKey={(job) => job.id} href={(job) => href(`/jobs/${job.id}`)} empty={<Empty title="It has not enqueued a job yet, or they are removed" />} />
            )}
        </Panel>
    );
}

function SkippedRuns({ schedule }: { schedule: Schedule }) {
    if (schedule.skipped_runs.length === 0) return null;
    return (
        <Panel title="Skipped runs" aside={plural(schedule.skipped_total, 'run')}>
            <ul class="list">
                {schedule.skipped_runs.map((run) => (
                    <li key={run.first}>
                        <span>
                            {run.count > 1 ? `${count(run.count)} runs: ` : ''}
                            {run.message}
                        </span>
                        <span class="dim">{inZone(run.last, schedule.timezone)}</span>
                        {run.job_id && <span class="dim">because of <JobLink id={run.job_id} /></span>}
                    </li>
                ))}
            </ul>
        </Panel>
    );
}
