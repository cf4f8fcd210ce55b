// The column beside: the sandbox now, the errors, and everything else that is known about the job.
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { bytes, count, Facts as List, href, JobLink, Meter, may, now, Panel, QueueLink, shortDigest, show, span, Time, type Attempt, type Live, type WholeJob } from '#kit';
import { deniedTo, GrantAndRetry } from './grant';

/** Limits that an attempt may run into and that are not amounts which grow, as the API names them. */
const LIMITS: Record<string, string> = { stall_timeout: 'time without a sign of life', checkpoint: 'size of a checkpoint', result: 'size of the result', children: 'children between two checkpoints', http: 'size of an HTTP request or response' };

export function Sandbox({ live, job }: { live: Live | null; job: WholeJob }) {
    if (!live) return <Usage job={job} />;
    const since = job.started_at ? now.value - Date.parse(job.started_at) : 0;
    const until = live.deadline && job.started_at ? Date.parse(live.deadline) - Date.parse(job.started_at) : 0;
    const hit = (name: string) => live.hits.includes(name);
    // Those without a meter.
    const others = live.hits.flatMap((name) => LIMITS[name] ?? []);
    return (
        <Panel title="In the sandbox" aside="now">
            <Use title="Memory" value={live.memory_bytes} of={live.memory_limit_bytes} text={bytes} hit={hit('memory')} />
            <Use title="CPU" value={live.cpu_ms} of={live.cpu_limit_ms ?? 0} text={span} hit={hit('cpu_time')} />
            <Use title="Time" value={since} of={until} text={span} hit={hit('attempt_timeout')} />
            <Use title="Log" value={live.log_bytes} of={live.log_limit_bytes} text={bytes} hit={hit('log')} />
            {others.length > 0 && <p class="warn-line">Limit reached: {others.join(', ')}</p>}
            <p class="dim">
                {count(live.host_calls)} host calls · at most {bytes(live.memory_peak_bytes)} so far
            </p>
        </Panel>
    );
}

function Use({ title, value, of, text, hit }: { title: string; value: number; of: number; text(value: number): string; hit: boolean }) {
    const full = of > 0 && value / of > 0.9;
    return (
        <div class="use">
            <span>{title}</span>
            <span class="num">
                {text(value)} {of > 0 && <span class="dimmer">of {text(of)}</span>}
                {hit && <span class="warn-line"> limit reached</span>}
            </span>
            {of > 0 && <Meter value={value} of={of} label={`${title} of the limit`} state={hit ? 'dead' : full ? 'retrying' : 'active'} wide />}
        </div>
    );
}

/** What the latest ended attempt used. */
function Usage({ job }: { job: WholeJob }) {
    const used = job.attempt_usage;
    const tokens = job.usage as { cost_usd?: number; input_tokens?: number; output_tokens?: number } | undefined;
    if (!used && !tokens) return null;
    return (
        <Panel title="What it used">
            <List
                of={[
                    used?.cpu_ms !== undefined && ['CPU', span(used.cpu_ms)],
                    used?.wall_ms !== undefined && ['Time', span(used.wall_ms)],
                    !!used?.peak_memory && ['Memory', bytes(used.peak_memory)],
                    used?.host_calls !== undefined && ['Host calls', count(used.host_calls)],
                    tokens?.input_tokens !== undefined && ['Tokens', `${count(tokens.input_tokens)} in, ${count(tokens.output_tokens ?? 0)} out`],
                    tokens?.cost_usd !== undefined && ['Cost', `$${tokens.cost_usd.toFixed(4)}`],
                ]}
            />
        </Panel>
    );
}

export function Errors({ job, attempts, after }: { job: WholeJob; attempts: Attempt[]; after(): void }) {
    const denied = deniedTo(job, attempts);
    const [all, setAll] = useState(false);
    const errors = [...job.errors].reverse();
    if (errors.length === 0) return null;
    const shown = all ? errors : errors.slice(0, 1);
    return (
        <Panel title={errors.length === 1 ? 'Error' : `${errors.length} errors`} aside={errors.length > 1 && !all ? `the latest` : undefined}>
            {shown.map((one) => (
                <div key={`${one.attempt} ${one.at}`} class="error-part">
                    <p class="dimmer">
                        attempt {one.attempt} · <Time at={one.at} />
                    </p>
                    <p class="error-text" tabIndex={0}>
                        {one.error}
                    </p>
                    {one.backtrace && <pre class="backtrace" tabIndex={0} aria-label="Backtrace">{one.backtrace}</pre>}
                </div>
            ))}
            {errors.length > 1 && (
                <button type="button" class="small" aria-expanded={all} onClick={() => setAll(!all)}>
                    {all ? 'Only the latest' : `All ${errors.length}`}
                </button>
            )}
            {denied.length > 0 && may('administer') && may('operate') && ['dead', 'cancelled', 'completed'].includes(job.state) && (
                <p>
                    <button type="button" class="main" onClick={() => show((close) => <GrantAndRetry job={job} denied={denied} close={close} after={after} />)}>
                        Grant and run again…
                    </button>
                </p>
            )}
            {job.plugin && denied.length > 0 && (
                <p>
                    <a href={href(`/plugins/${encodeURIComponent(job.plugin)}`, { tab: 'grants' })}>All grants of {job.plugin}</a>
                </p>
            )}
            {job.error_fingerprint && (
                <p>
                    <a href={href('/dead', { group: job.error_fingerprint })}>All jobs with this error</a>
                </p>
            )}
        </Panel>
    );
}

export function Facts({ job }: { job: WholeJob }) {
    const tags = Object.entries(job.tags);
    return (
        <Panel title="About it">
            <List
                of={[
                    ['Queue', <QueueLink name={job.queue} />],
                    !!job.plugin && [
                        'Plugin',
                        <>
                            <a href={href(`/plugins/${encodeURIComponent(job.plugin)}`)}>{job.plugin}</a> <span class="mono dimmer">{shortDigest(job.plugin_version ?? '')}</span>
                        </>,
                    ],
                    !!job.worker && ['Worker', job.worker.id],
                    !!job.pinned_version && ['Stays on', <span class="mono">{shortDigest(job.pinned_version)}</span>],
                    ['Enqueued', <Time at={job.created_at} />],
                    !!job.created_by && ['By', job.created_by],
                    !!job.started_at && ['Started', <Time at={job.started_at} />],
                    !!(job.completed_at ?? job.failed_at) && ['Ended', <Time at={job.completed_at ?? job.failed_at} />],
                    ['Priority', job.priority],
                    ['Attempts', `${job.attempt} of ${job.max_attempts}${job.failures ? `, ${job.failures} failed` : ''}${job.crashes ? `, ${job.crashes} crashed` : ''}`],
                    !!job.retry_backoff && ['Retries', `${job.retry_backoff}, ${job.retry_base_delay} to ${job.retry_max_delay}`],
                    !!job.schedule && ['Schedule', <a href={href('/schedules')}>{job.schedule}</a>],
                    !!job.parent_id && ['Parent', <JobLink id={job.parent_id} />],
                    job.round !== undefined && ['Round', job.round],
                    !!job.unique_key && ['Unique key', <span class="mono">{job.unique_key}</span>],
                    !!job.limit_key && ['Limit key', job.limit_key],
                    !!job.scope && ['Scope', job.scope],
                    !!job.attempt_timeout && ['Attempt limit', job.attempt_timeout],
                    !!job.max_duration && ['Whole limit', job.max_duration],
                    !!job.expire_at && ['Expires', <Time at={job.expire_at} future />],
                    !!job.lease_expires_at && ['Lease until', <Time at={job.lease_expires_at} future />],
                    ...tags.map(([name, value]) => [name, <a href={href('/jobs', { q: `tag:${name}=${value}` })}>{value}</a>] as [string, VNode]),
                ]}
            />
        </Panel>
    );
}
