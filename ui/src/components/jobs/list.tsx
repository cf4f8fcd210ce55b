// A list of jobs from a search: live, page after page, with choosing and acting on many. Its filter and order are in the address.
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { post } from '../../api/client';
import { STATES, type Job, type Search } from '../../api/types';
import * as live from '../../app/live';
import { complain } from '../../app/notices';
import { useResource } from '../../app/resource';
import { href, query, setQuery } from '../../app/router';
import { Empty, Failed, JobLink, Loading, Panel, QueueLink, StatePill, Time } from '../basics';
import { count, plural } from '../format';
import { Table, type Column } from '../table';
import { BulkButtons } from './bulk';
import { FILTER_HELP, parse, type Filter } from './filter';

export const PAGE = 100;
const REFRESH_MS = 2500;

const jobHref = (job: Job) => href(`/jobs/${job.id}`);
const keyOf = (job: Job) => job.id;

/** The time that matters in a state: when it is due, when it ended, or when it came. */
function when(job: Job): ComponentChildren {
    if (job.state === 'scheduled' || job.state === 'retrying') return <Time at={job.scheduled_at} future />;
    return <Time at={job.completed_at ?? job.failed_at ?? job.started_at ?? job.created_at} />;
}

/** What one wants to know at a glance: the error, why it is held, how far it is, or else what it is about. */
export function Gist({ job }: { job: Job }) {
    if (job.state === 'held' && job.hold_reason) return <span>{job.hold_reason}</span>;
    if (job.last_error && ['dead', 'retrying'].includes(job.state)) return <span class="dead-ink">{job.last_error}</span>;
    const progress = job.progress;
    if (job.state === 'active' && progress) return <span>{progress.message ?? progress.phase ?? (progress.percent !== undefined ? `${Math.round(progress.percent)} %` : '')}</span>;
    return <span class="mono dim">{job.payload_preview?.text || job.id}</span>;
}

export function jobColumns(options: { queue?: boolean; state?: boolean; time?: Column<Job>; extra?: Column<Job>[] } = {}): Column<Job>[] {
    const columns: Column<Job>[] = [{ key: 'job', title: 'Job', width: '112px', from: 's', cell: (job) => <JobLink id={job.id} /> }];
    if (options.state !== false) columns.push({ key: 'state', title: 'State', width: '106px', cell: (job) => <StatePill of={job.state} /> });
    if (options.queue !== false) columns.push({ key: 'queue', title: 'Queue', width: '160px', from: 's', cell: (job) => <QueueLink name={job.queue} /> });
    // On a phone there is room for one of the two, and what a job is about says more than its id.
    columns.push({ key: 'gist', title: 'About', cell: (job) => <a href={jobHref(job)} title={job.id}><Gist job={job} /></a> });
    columns.push({ key: 'attempt', title: 'Attempt', num: true, width: '76px', from: 'm', sort: 'attempt', cell: (job) => <span class={job.attempt > 1 ? '' : 'dimmer'}>{job.attempt}</span> });
    columns.push(...(options.extra ?? []));
    columns.push(options.time ?? { key: 'time', title: 'When', width: '92px', num: true, sort: 'created_at', cell: when });
    return columns;
}

interface Props {
    /** Beyond what is in the address: `{ queue: 'emails' }`. */
    base?: Filter;
    columns?: Column<Job>[];
    /** What can be done with many of them. */
    actions: string[];
    order?: { by: string; down: boolean };
    /** The states to choose from; empty: none can be chosen. */
    states?: string[];
    empty?: ComponentChildren;
    counts?: Record<string, number>;
    label: string;
}

export function JobList(props: Props) {
    const typed = query.value.get('q') ?? '';
    const states = (query.value.get('state') ?? '').split(',').filter(Boolean);
    const by = query.value.get('sort') ?? props.order?.by ?? 'created_at';
    const down = query.value.has('order') ? query.value.get('order') === 'desc' : (props.order?.down ?? true);
    const filter = useMemo(() => ({ ...parse(typed, states), ...props.base }), [typed, states.join(), JSON.stringify(props.base)]);
    const body = { ...filter, payload: 'preview', preview_chars: 160, sort: by, order: down ? 'desc' : 'asc', limit: PAGE };
    const key = JSON.stringify(body);
    const [later, setLater] = useState<{ key: string; jobs: Job[]; cursor: string | null; busy: boolean }>({ key, jobs: [], cursor: null, busy: false });
    const further = later.key === key ? later : { key, jobs: [], cursor: null, busy: false };
    // A list that was scrolled on stays as it is: rows that move away from under the eyes help nobody.
    const first = useResource(key, (signal) => post<Search>('/jobs/search', body, signal), { everyMs: further.jobs.length ? undefined : REFRESH_MS, keep: true });
    const chosen = useSignal(new Set<string>());
    useEffect(() => {
        chosen.value = new Set();
    }, [key]);

    const data = first.data;
    const jobs = useMemo(() => [...(data?.jobs ?? []), ...further.jobs], [data, further.jobs]);
    const cursor = further.jobs.length ? further.cursor : (data?.cursor ?? null);
    const more = () => {
        if (!cursor || further.busy || first.loading) return;
        setLater({ ...further, busy: true });
        post<Search>('/jobs/search', { ...body, cursor }).then(
            (page) => setLater({ key, jobs: [...further.jobs, ...page.jobs], cursor: page.cursor, busy: false }),
            (error) => {
                complain(error);
                setLater({ ...further, busy: false });
            },
        );
    };
    const reload = () => {
        chosen.value = new Set();
        setLater({ key, jobs: [], cursor: null, busy: false });
        first.reload();
    };
    const total = data?.total ?? 0;
    // Acting on everything is offered where somebody has said which jobs: not on a whole queue by default.
    const narrowed = typed !== '' || states.length > 0 || props.base?.state !== undefined;
    return (
        <>
            <Filters typed={typed} states={states} choice={props.states ?? STATES} counts={props.counts} />
            <Panel label={props.label} flush>
                {first.error && !data && <Failed error={first.error} retry={first.reload} />}
                {first.error && data && <p class="bulk wrong-line">{first.error.message}</p>}
                {!data && !first.error && <Loading rows={8} />}
                {data && (
                    <>
                        <div class={`bulk ${chosen.value.size > 0 ? 'some' : ''}`}>
                            {chosen.value.size > 0 ? (
                                <>
                                    <b>{count(chosen.value.size)} chosen</b>
                                    <BulkButtons which={{ ids: [...chosen.value] }} actions={props.actions} after={reload} keys />
                                    <button type="button" class="quiet" onClick={() => (chosen.value = new Set())}>
                                        Choose none
                                    </button>
                                </>
                            ) : (
                                <>
                                    <span>{plural(total, 'job')}</span>
                                    {total > 0 && narrowed && <BulkButtons which={{ filter }} actions={props.actions} after={reload} keys />}
                                </>
                            )}
                            <span class="push dim">{data.duration_ms > 300 ? `searched ${(data.duration_ms / 1000).toFixed(1)} s` : ''}</span>
                        </div>
                        <Table
                            label={props.label}
                            columns={props.columns ?? jobColumns()}
                            rows={jobs}
                            rowKey={keyOf}
                            href={jobHref}
                            chosen={chosen}
                            sort={{ by, down, set: (by, down) => setQuery({ sort: by, order: down ? 'desc' : 'asc' }) }}
                            more={more}
                            empty={typed || states.length ? <NoneFits /> : (props.empty ?? <Empty title="There are no jobs" />)}
                        />
                        {further.busy && <Loading rows={2} />}
                    </>
                )}
            </Panel>
        </>
    );
}

const NoneFits = () => (
    <Empty title="No job matches">
        <button type="button" onClick={() => setQuery({ q: null, state: null })}>
            Remove the filter
        </button>
    </Empty>
);

function Filters({ typed, states, choice, counts }: { typed: string; states: string[]; choice: string[]; counts?: Record<string, number> }) {
    const [text, setText] = useState(typed);
    useEffect(() => setText(typed), [typed]);
    // A search begins when the typing pauses.
    useEffect(() => {
        if (text === typed) return;
        const timer = setTimeout(() => setQuery({ q: text }), 250);
        return () => clearTimeout(timer);
    }, [text]);
    const toggle = (state: string) => {
        const next = states.includes(state) ? states.filter((one) => one !== state) : [...states, state];
        setQuery({ state: next.join(',') });
    };
    const totals = counts ?? live.totals.value;
    return (
        <>
            <div class="filters">
                <input
                    type="search"
                    class="grow"
                    data-filter
                    aria-label="Filter jobs"
                    placeholder="Text of the payload, queue:…, tag:…, error:…"
                    spellcheck={false}
                    value={text}
                    onInput={(event) => setText(event.currentTarget.value)}
                />
                <details class="filter-help">
                    <summary>Filters</summary>
                    <dl class="facts">
                        {FILTER_HELP.map(([term, about]) => (
                            <>
                                <dt key={term}>
                                    <code>{term}</code>
                                </dt>
                                <dd>{about}</dd>
                            </>
                        ))}
                    </dl>
                </details>
            </div>
            {choice.length > 1 && (
                <div class="chips filters" role="group" aria-label="States">
                    {choice.map((state) => (
                        <button key={state} type="button" class="chip" aria-pressed={states.includes(state)} onClick={() => toggle(state)}>
                            <StatePill of={state} />
                            {totals[state] ? <span class="dimmer">{count(totals[state] as number)}</span> : null}
                        </button>
                    ))}
                </div>
            )}
        </>
    );
}
