// The attempts on one time line: how long each waited and ran, how long the next one was delayed, who ran it, and how it ended.
import { bytes, clockTime, dateTime, Failed, now, Panel, shortDigest, span, times, type Attempt } from '#kit';
import type { AttemptList } from './index';

const STATE: Record<string, string> = { running: 'active', completed: 'completed', failed: 'dead', crashed: 'dead', handed_back: 'cancelled', stopped: 'cancelled', waits: 'blocked', continued: 'scheduled', unknown: 'cancelled' };
const WORD: Record<string, string> = { handed_back: 'handed back', waits: 'waits for children', running: 'running' };
const SHOWN = 12;

interface Part {
    from: number;
    to: number;
    state: string;
    faint: boolean;
    text: string;
}

const ms = (at: string | null) => (at ? Date.parse(at) : null);

/** What an attempt takes of the time line. */
function parts(attempt: Attempt, present: number): Part[] {
    const start = ms(attempt.started_at);
    const queued = ms(attempt.queued_at) ?? (start !== null && attempt.waited_ms !== null ? start - attempt.waited_ms : start);
    const end = ms(attempt.ended_at) ?? present;
    const found: Part[] = [];
    if (queued !== null && start !== null && start > queued) found.push({ from: queued, to: start, state: 'pending', faint: true, text: `waited ${span(start - queued)}` });
    if (start !== null) found.push({ from: start, to: Math.max(end, start), state: STATE[attempt.outcome] ?? 'cancelled', faint: false, text: `${WORD[attempt.outcome] ?? attempt.outcome}, ran ${span(end - start)}` });
    const next = ms(attempt.next_at) ?? (attempt.backoff_ms !== null ? end + attempt.backoff_ms : null);
    if (attempt.backoff_ms && next !== null) found.push({ from: end, to: Math.min(next, Math.max(present, end)), state: 'retrying', faint: true, text: `delayed for ${span(attempt.backoff_ms)}` });
    return found;
}

export function Attempts({ list, error }: { list?: AttemptList; error?: Error }) {
    if (error && !list) return <Panel title="Attempts"><Failed error={error} /></Panel>;
    if (!list) return <Panel title="Attempts"><div class="water-space" /></Panel>;
    if (list.attempts.length === 0) return <Panel title="Attempts"><p class="dim">It has not been started yet.</p></Panel>;
    const running = list.attempts.some((attempt) => attempt.outcome === 'running');
    const present = running ? now.value : Math.max(...list.attempts.map((attempt) => ms(attempt.ended_at) ?? 0));
    const shown = list.attempts.slice(-SHOWN);
    const all = shown.map((attempt) => parts(attempt, present));
    const from = Math.min(...all.flat().map((part) => part.from));
    const to = Math.max(...all.flat().map((part) => part.to), from + 1);
    const hidden = list.total - shown.length;
    const utc = times.value === 'utc';
    const left = (at: number) => ((at - from) / (to - from)) * 100;
    return (
        <Panel title="Attempts" aside={`${dateTime(new Date(from), utc)} – ${running ? 'now' : clockTime(new Date(to), utc)} · ${span(to - from)}`}>
            {hidden > 0 && <p class="dim">{hidden} earlier {hidden === 1 ? 'attempt is' : 'attempts are'} not shown.</p>}
            <ol class="water">
                {shown.map((attempt, at) => (
                    <li key={attempt.number}>
                        <span class="clip">
                            {attempt.number} <Runner of={attempt} />
                        </span>
                        <span class="lane" aria-hidden="true">
                            {all[at]?.map((part) => (
                                <i key={part.text} class={`is-${part.state} ${part.faint ? 'faint' : ''}`} title={part.text} style={{ left: `${left(part.from)}%`, width: `${Math.max(0.4, left(part.to) - left(part.from))}%` }} />
                            ))}
                        </span>
                        <span class="meta" title={attempt.error ?? attempt.reason ?? undefined}>
                            {describe(attempt, present)}
                        </span>
                    </li>
                ))}
            </ol>
        </Panel>
    );
}

function Runner({ of }: { of: Attempt }) {
    if (of.plugin_version) return <span class="mono dimmer" title={`${of.plugin} ${of.plugin_version}`}>{shortDigest(of.plugin_version)}</span>;
    return <span class="dimmer">{of.worker?.id ?? ''}</span>;
}

function describe(attempt: Attempt, present: number): string {
    const ran = attempt.outcome === 'running' && attempt.started_at ? present - Date.parse(attempt.started_at) : attempt.ran_ms;
    const said = [WORD[attempt.outcome] ?? attempt.outcome];
    if (attempt.waited_ms && attempt.waited_ms > 100) said.push(`waited ${span(attempt.waited_ms)}`);
    if (ran !== null) said.push(`ran ${span(ran)}`);
    if (attempt.cpu_ms !== undefined) said.push(`cpu ${span(attempt.cpu_ms)}`);
    if (attempt.peak_memory) said.push(bytes(attempt.peak_memory));
    if (attempt.hits.length) said.push(`limits hit: ${attempt.hits.join(', ').replaceAll('_', ' ')}`);
    if (attempt.outcome !== 'running' && attempt.outcome !== 'completed' && attempt.reason && attempt.reason !== attempt.error) said.push(attempt.reason);
    return said.join(' · ');
}
