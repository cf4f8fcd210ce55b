// Denied → granted → run again, in one dialog: what the error says was denied is ticked, granted, and the job runs again.
import { useState } from 'preact/hooks';
import { call, Check, Command, deniedIn, Field, flagFor, FormDialog, get, granting, Loading, may, path, quoted, useResource, type Action, type Attempt, type Flag, type WholeJob } from '#kit';
import type { Capabilities, Manifest, Plugin } from '../plugins/model';
import { asks, covers } from '../plugins/reach';

const LABELS: Record<string, (value: string) => string> = {
    http: (value) => `HTTP to ${value}`,
    'private-http': (value) => `HTTP to ${value}, at private addresses too`,
    read: (value) => `read ${value.split('=')[0]}`,
    write: (value) => `read and write ${value.split('=')[0]}`,
    env: (value) => `the variable ${value.split('=')[0]}`,
    secret: (value) => `the secret ${value}`,
    spawn: (value) => `start jobs in ${value}`,
};

/** What was denied to the last attempt, as flags; none if it failed of something else. The error names folders and variables, too. */
export function deniedTo(job: WholeJob, attempts: Attempt[]): Flag[] {
    if (!job.plugin) return [];
    const told = (attempts.at(-1)?.denials ?? []).map(flagFor);
    const named = deniedIn(job.errors.at(-1)?.error ?? '', job.plugin);
    return [...told, ...named].filter((one, at, all) => all.findIndex((other) => other.flag === one.flag && other.value === one.value) === at);
}

const FIELDS: Record<string, keyof Capabilities> = { http: 'http', 'private-http': 'http', read: 'read', write: 'write', env: 'environment', secret: 'secrets', spawn: 'spawn' };

/** The manifest, asking for what it did not ask for. */
function asking(manifest: Manifest, flags: Flag[]): Manifest {
    const capabilities = { ...manifest.capabilities };
    for (const { flag, value } of flags) {
        const field = FIELDS[flag];
        if (field) capabilities[field] = [...capabilities[field], needs(flag) ? (value.split('=')[0] as string) : value];
    }
    return { ...manifest, capabilities };
}

const needs = (flag: string) => flag === 'read' || flag === 'write' || flag === 'env';

export function GrantAndRetry({ job, denied, close, after }: { job: WholeJob; denied: Flag[]; close(): void; after(): void }) {
    const plugin = job.plugin ?? '';
    const [off, setOff] = useState<string[]>([]);
    // The error can only say `=/a/folder/of/the/server` and `=VALUE`.
    const [values, setValues] = useState<Record<string, string>>({});
    const found = useResource(`plugin ${plugin}`, (signal) => get<Plugin>(path(['plugins', plugin]), signal));
    const active = found.data?.versions.find((one) => one.version === found.data?.active);
    const keyOf = ({ flag, value }: Flag) => `${flag} ${value}`;
    const chosen = denied.filter((one) => !off.includes(keyOf(one)));
    const filled = chosen.map((one): Flag => (needs(one.flag) ? { flag: one.flag, value: `${one.value.split('=')[0]}=${values[keyOf(one)] ?? ''}` } : one));
    const lacking = chosen.some((one) => needs(one.flag) && !(values[keyOf(one)] ?? '').trim());
    const grant = found.data && filled.reduce(granting, found.data.grant);
    // Both sides must agree: what the manifest does not ask for stays denied however much is granted.
    const asked = active ? asks(active.manifest) : [];
    const unasked = active ? chosen.filter((one) => FIELDS[one.flag] && !covers(asked, one)) : [];
    const deploys = may('deploy');
    const action: Action | null =
        grant && chosen.length > 0 && !lacking && (unasked.length === 0 || deploys)
            ? {
                  label: 'Grant and run again',
                  does: `Grants ${plugin} ${filled.map((one) => LABELS[one.flag]?.(one.value) ?? `${one.flag} ${one.value}`).join(', ')}, for all its jobs from the next attempt on.${unasked.length ? ' Its manifest is made to ask for what it did not ask for.' : ''} Then this job runs again with all its attempts.`,
                  done: `Granted; ${job.id} runs again`,
                  needs: 'administer',
                  method: 'PUT',
                  path: path(['plugins', plugin, 'grant']),
                  body: grant,
                  command: ['plugin', 'grant', plugin, ...filled.flatMap((one) => [`--${one.flag}`, one.value])],
              }
            : null;
    const go = async () => {
        if (active && unasked.length) await call('PUT', path(['plugins', plugin, 'manifest'], { version: active.version }), { body: asking(active.manifest, unasked) });
        await call('PUT', path(['plugins', plugin, 'grant']), { body: grant });
        return call('POST', path(['jobs', job.id, 'retry']), { body: {} });
    };
    return (
        <FormDialog title={`What ${plugin} was denied`} label="Grant and run again" action={action} why={unasked.length && !deploys ? 'Its manifest does not ask for all of it: whoever deploys it changes that first.' : lacking ? 'Say which folder or value it is.' : found.error ? found.error.message : 'Tick what it may have.'} close={close} after={after} go={go}>
            {found.loading && <Loading rows={2} />}
            <ul class="grants">
                {denied.map((one) => {
                    const key = keyOf(one);
                    const on = !off.includes(key);
                    return (
                        <li key={key}>
                            <Check label={LABELS[one.flag]?.(one.value) ?? `${one.flag.replaceAll('-', ' ')} up to ${one.value}`} checked={on} set={(now) => setOff(now ? off.filter((other) => other !== key) : [...off, key])} />
                            {on && unasked.includes(one) && <p class="warn-line">The manifest of the active version does not ask for it{deploys ? ': that is changed, too' : ''}.</p>}
                            {on && needs(one.flag) && (
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
