// Changing a job: one that has ended runs again with another payload, and one that waits is changed before it runs. The payload is sent as
// it is written, so that large numbers stay exact.
import { useEffect, useState } from 'preact/hooks';
import { complain, ENDED, Field, firstError, FormDialog, isJson, JsonEditor, Loading, path, pretty, Select, send, type Action } from '#kit';
import type { FormProps } from './actions';

/** Larger payloads are not edited in a page. */
const EDIT_BYTES = 512 * 1024;

/** What can be changed besides the payload, as it is written in the form. */
interface Draft {
    priority: string;
    scheduled_at: string;
    tags: string;
    max_attempts: string;
    attempt_timeout: string;
    stall_timeout: string;
    max_duration: string;
}

const LIMITS = { attempt_timeout: 'One attempt takes at most', stall_timeout: 'Without a sign of life at most', max_duration: 'All attempts together at most' } as const;

function draftOf(job: FormProps['job']): Draft {
    const due = job.scheduled_at ? new Date(job.scheduled_at) : null;
    return {
        priority: job.priority,
        // As the field wants it: the local time, without a zone.
        scheduled_at: due ? new Date(due.getTime() - due.getTimezoneOffset() * 60_000).toISOString().slice(0, 16) : '',
        tags: Object.entries(job.tags).map(([name, value]) => `${name}=${value}`).join(', '),
        max_attempts: String(job.max_attempts),
        attempt_timeout: job.attempt_timeout ?? '',
        stall_timeout: job.stall_timeout ?? '',
        max_duration: job.max_duration ?? '',
    };
}

const tagsIn = (text: string) => text.split(',').map((part) => part.trim()).filter(Boolean).map((part) => [part.split('=')[0] as string, part.slice(part.indexOf('=') + 1)] as const);

/** What differs, for the request and for the command. */
function changes(from: Draft, to: Draft): { body: Record<string, unknown>; flags: string[] } {
    const body: Record<string, unknown> = {};
    const flags: string[] = [];
    for (const name of Object.keys(to) as (keyof Draft)[]) {
        const text = to[name].trim();
        if (text === from[name]) continue;
        const flag = `--${name.replaceAll('_', '-')}`;
        if (name === 'tags') {
            body.tags = Object.fromEntries(tagsIn(text));
            flags.push(...tagsIn(text).flatMap(([tag, value]) => ['--tag', `${tag}=${value}`]));
        } else if (name === 'scheduled_at') {
            body.scheduled_at = text ? new Date(text).toISOString() : null;
            flags.push(flag, (body.scheduled_at as string | null) ?? 'now');
        } else if (name in LIMITS) {
            body[name] = text || null;
            flags.push(flag, text || 'none');
        } else {
            body[name] = name === 'max_attempts' ? Number(text) : text;
            flags.push(flag, text);
        }
    }
    return { body, flags };
}

export function Edit({ job, state, close, after }: FormProps & { state: string }) {
    const ended = (ENDED as string[]).includes(state);
    const preview = job.payload_preview;
    const [text, setText] = useState<string | null>(preview && !preview.truncated && preview.encoding === 'text' ? shown(preview.text) : null);
    const [start, setStart] = useState(text);
    const [before] = useState(() => draftOf(job));
    const [draft, setDraft] = useState(before);
    const field = (name: keyof Draft) => ({ value: draft[name], set: (value: string) => setDraft((known) => ({ ...known, [name]: value })) });
    const tooLarge = preview && (preview.encoding !== 'text' || preview.size_bytes > EDIT_BYTES);
    useEffect(() => {
        if (text !== null || tooLarge) return;
        send('GET', path(['jobs', job.id, 'payload'])).then(async (response) => {
            const whole = shown(await response.text());
            setStart(whole);
            setText(whole);
        }, complain);
    }, []);
    const edited = text !== start;
    const valid = text === null ? !!tooLarge && !ended : firstError(text) === null;
    const { body, flags } = changes(before, draft);
    const wrong = tagsIn(draft.tags).some(([name], at, all) => !name || !draft.tags.includes('=') || all.findIndex(([other]) => other === name) !== at) ? 'Write tags as name=value, separated by commas.' : '';
    const parts = [...(ended || edited ? [`"payload":${text}`] : []), ...Object.entries(ended ? {} : body).map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`)];
    const action: Action | null =
        valid && !wrong && parts.length > 0
            ? {
                  label: ended ? 'Run again' : 'Save',
                  does: ended ? 'Runs this job again with the payload below, with all its attempts and without its checkpoint. Its history stays.' : 'Changes the job before it runs. Its timeline says who did it.',
                  done: ended ? 'It runs again' : 'Saved',
                  needs: 'operate',
                  method: ended ? 'POST' : 'PATCH',
                  path: ended ? path(['jobs', job.id, 'retry']) : path(['jobs', job.id]),
                  body: `{${parts.join(',')}}`,
                  command: ended ? ['job', 'retry', job.id, '--payload', text ?? ''] : ['job', 'edit', job.id, ...(edited ? ['--payload', text ?? ''] : []), ...flags],
              }
            : null;
    return (
        <FormDialog title={ended ? 'Run again with another payload' : 'Edit the job'} action={action} wide why={wrong || (text !== null && !valid ? 'This is not JSON yet.' : 'Nothing is changed.')} close={close} after={after}>
            {tooLarge ? (
                <p>The payload is too large to edit here, or not text. Download it, change it, and enqueue it with the command: windlass enqueue {job.queue} @FILE</p>
            ) : text === null ? (
                <Loading rows={6} />
            ) : (
                <JsonEditor label="Payload" value={text} set={setText} rows={ended ? 16 : 10} autofocus />
            )}
            {!ended && (
                <>
                    <div class="pair">
                        <Select label="Priority" {...field('priority')} of={{ critical: 'critical', high: 'high', normal: 'normal', low: 'low' }} />
                        {state !== 'blocked' && <Field label="Due (empty: at once)" type="datetime-local" {...field('scheduled_at')} />}
                        <Field label="Attempts in all" type="number" min={1} required {...field('max_attempts')} />
                        <Field label="Tags" placeholder="tenant=acme, kind=report" spellcheck={false} {...field('tags')} />
                    </div>
                    <div class="pair">
                        {(Object.keys(LIMITS) as (keyof typeof LIMITS)[]).map((name) => (
                            <Field key={name} label={LIMITS[name]} placeholder="no limit; or 5m" spellcheck={false} {...field(name)} />
                        ))}
                    </div>
                </>
            )}
        </FormDialog>
    );
}

const shown = (text: string) => (isJson(text) ? pretty(text) : text);
