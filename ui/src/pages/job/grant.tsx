// Denied → granted → run again, in one dialog: what the error says was denied is ticked, granted, and the job runs again.
import { useState } from 'preact/hooks';
import { call, Check, Command, deniedIn, Field, FormDialog, get, granting, Loading, path, quoted, useResource, type Action, type Flag, type Grant, type WholeJob } from '#kit';

const LABELS: Record<string, (value: string) => string> = {
    http: (value) => `HTTP to ${value}`,
    'private-http': (value) => `HTTP to ${value}, at private addresses too`,
    read: (value) => `read ${value.split('=')[0]}`,
    write: (value) => `read and write ${value.split('=')[0]}`,
    env: (value) => `the variable ${value.split('=')[0]}`,
    secret: (value) => `the secret ${value}`,
    spawn: (value) => `start jobs in ${value}`,
};

/** What was denied to the last attempt, as flags; none if it failed of something else. */
export const deniedTo = (job: WholeJob): Flag[] => (job.plugin ? deniedIn(job.errors.at(-1)?.error ?? '', job.plugin) : []);

export function GrantAndRetry({ job, close, after }: { job: WholeJob; close(): void; after(): void }) {
    const plugin = job.plugin ?? '';
    const denied = deniedTo(job);
    const [off, setOff] = useState<string[]>([]);
    // The error can only say `=/a/folder/of/the/server` and `=VALUE`.
    const [values, setValues] = useState<Record<string, string>>({});
    const found = useResource(`grant of ${plugin}`, (signal) => get<Grant>(path(['plugins', plugin, 'grant']), signal));
    const keyOf = ({ flag, value }: Flag) => `${flag} ${value}`;
    const needs = ({ flag }: Flag) => flag === 'read' || flag === 'write' || flag === 'env';
    const chosen = denied.filter((one) => !off.includes(keyOf(one)));
    const filled = chosen.map((one): Flag => (needs(one) ? { flag: one.flag, value: `${one.value.split('=')[0]}=${values[keyOf(one)] ?? ''}` } : one));
    const lacking = chosen.some((one) => needs(one) && !(values[keyOf(one)] ?? '').trim());
    const grant = found.data && filled.reduce(granting, found.data);
    const action: Action | null =
        grant && chosen.length > 0 && !lacking
            ? {
                  label: 'Grant and run again',
                  does: `Grants ${plugin} ${filled.map((one) => LABELS[one.flag]?.(one.value) ?? `${one.flag} ${one.value}`).join(', ')}, for all its jobs from the next attempt on. Then this job runs again with all its attempts.`,
                  done: `Granted; ${job.id} runs again`,
                  needs: 'administer',
                  method: 'PUT',
                  path: path(['plugins', plugin, 'grant']),
                  body: grant,
                  command: ['plugin', 'grant', plugin, ...filled.flatMap((one) => [`--${one.flag}`, one.value])],
              }
            : null;
    const go = async () => {
        await call('PUT', path(['plugins', plugin, 'grant']), { body: grant });
        return call('POST', path(['jobs', job.id, 'retry']), { body: {} });
    };
    return (
        <FormDialog title={`What ${plugin} was denied`} label="Grant and run again" action={action} why={lacking ? 'Say which folder or value it is.' : found.error ? found.error.message : 'Tick what it may have.'} close={close} after={after} go={go}>
            {found.loading && <Loading rows={2} />}
            <ul class="grants">
                {denied.map((one) => {
                    const key = keyOf(one);
                    const on = !off.includes(key);
                    return (
                        <li key={key}>
                            <Check label={LABELS[one.flag]?.(one.value) ?? `${one.flag.replaceAll('-', ' ')} up to ${one.value}`} checked={on} set={(now) => setOff(now ? off.filter((other) => other !== key) : [...off, key])} />
                            {on && needs(one) && (
                                <Field
                                    label={one.flag === 'env' ? 'Its value' : 'The folder of the server'}
                                    value={values[key] ?? ''}
                                    set={(text) => setValues({ ...values, [key]: text })}
                                    placeholder={one.flag === 'env' ? 'UTC' : '/srv/data'}
                                    spellcheck={false}
                                />
                            )}
                        </li>
                    );
                })}
            </ul>
            {action && (
                <details class="as-commands">
                    <summary>And to run it again from a terminal</summary>
                    <Command text={['windlass', 'job', 'retry', job.id].map(quoted).join(' ')} />
                </details>
            )}
        </FormDialog>
    );
}
