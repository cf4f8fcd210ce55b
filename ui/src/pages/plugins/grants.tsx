// Grants, by ticking what was asked for. Two sides must agree: what the manifest asks for, and what is granted here.
import { useEffect, useState } from 'preact/hooks';
import { AsCommands, Check, Field, flagFor, FormDialog, get, granting, href, JobLink, may, Panel, path, plural, Select, show, useResource, type Action, type Flag, type Grant } from '#kit';
import { find, short, type Plugin, type Version } from './model';
import type { Part } from './one';
import { amount, asks, covers, keyOf, KINDS, LIMITS, rawLimit, said, standing, WORDS, type Ask, type Kind } from './reach';

const FLAGS: Record<Kind, string> = { http: 'http', read: 'read', write: 'write', environment: 'env', secrets: 'secret', spawn: 'spawn' };
const flagOf = (key: string) => key.replaceAll('.', '-').replaceAll('_', '-');

/** A grant as the flags that make it. */
function flagsOf(grant: Grant): Flag[] {
    const limits = LIMITS.flatMap((limit) => {
        const value = rawLimit(grant.limits, limit.key);
        return value === null || value === undefined || value === '' ? [] : [{ flag: flagOf(limit.key), value: String(value) }];
    });
    return [
        ...grant.http.map((value) => ({ flag: 'http', value })),
        ...grant.private_http.map((value) => ({ flag: 'private-http', value })),
        ...Object.entries(grant.folders).map(([guest, folder]) => ({ flag: folder.write ? 'write' : 'read', value: `${guest}=${folder.path}` })),
        ...Object.entries(grant.environment).map(([name, value]) => ({ flag: 'env', value: `${name}=${value}` })),
        ...grant.secrets.map((value) => ({ flag: 'secret', value })),
        ...grant.spawn.map((value) => ({ flag: 'spawn', value })),
        ...limits,
    ];
}

const LABEL: Record<string, string> = { http: 'HTTP to', 'private-http': 'HTTP, private networks too, to', read: 'reading', write: 'writing', env: 'the variable', secret: 'the secret', spawn: 'jobs in' };
const inWords = ({ flag, value }: Flag) => `${LABEL[flag] ?? flag.replaceAll('-', ' ')} ${value}`;
const differing = (some: Flag[], others: Flag[]) => some.filter((one) => !others.some((other) => other.flag === one.flag && other.value === one.value));

function saving(plugin: Plugin, draft: Grant): Action | null {
    const [before, after] = [flagsOf(plugin.grant), flagsOf(draft)];
    const [added, gone] = [differing(after, before), differing(before, after)];
    // A changed value is one that is granted: the old one is not revoked beside it.
    const revoked = gone.filter((one) => !added.some((other) => other.flag === one.flag && (!one.value.includes('=') ? LIMITS.some((limit) => flagOf(limit.key) === one.flag) : other.value.split('=')[0] === one.value.split('=')[0])));
    if (added.length + gone.length === 0) return null;
    const args = (flags: Flag[]) => flags.flatMap((one) => [`--${one.flag}`, one.value]);
    const parts = [added.length && `Grants ${plugin.name} ${added.map(inWords).join(', ')}`, revoked.length && `${added.length ? 'revokes' : `Revokes for ${plugin.name}`} ${revoked.map(inWords).join(', ')}`];
    return {
        label: 'Save the grants',
        does: `${parts.filter(Boolean).join('; ')}. It counts from the next attempt on.`,
        done: `The grants of ${plugin.name} are saved`,
        needs: 'administer',
        method: 'PUT',
        path: path(['plugins', plugin.name, 'grant']),
        body: draft,
        command: revoked.length === 0 ? ['plugin', 'grant', plugin.name, ...args(added)] : added.length === 0 ? ['plugin', 'revoke', plugin.name, ...args(revoked)] : ['plugin', 'grant', plugin.name, '--from', 'grant.json'],
    };
}

/** What a ticked thing still needs before it can be saved. */
const lacks = (draft: Grant) => (Object.values(draft.folders).some((folder) => !folder.path.startsWith('/')) ? 'Say which folder of the server it sees: its whole path.' : '');

/** Grants that no manifest asks for by that name: wider ones, and those that were given before anybody asked. */
function further(grant: Grant, asked: Ask[]): Flag[] {
    const names = new Set(asked.map((ask) => ask.name));
    return flagsOf(grant).filter(({ flag, value }) => {
        if (LIMITS.some((limit) => flagOf(limit.key) === flag)) return false;
        return !names.has(flag === 'read' || flag === 'write' || flag === 'env' ? value.slice(0, value.indexOf('=')) : value);
    });
}

function without(grant: Grant, { flag, value }: Flag): Grant {
    const name = value.slice(0, value.indexOf('='));
    const rest = <T,>(of: Record<string, T>) => Object.fromEntries(Object.entries(of).filter(([key]) => key !== name));
    const drop = (list: string[]) => list.filter((one) => one !== value);
    switch (flag) {
        case 'http':
            return { ...grant, http: drop(grant.http) };
        case 'private-http':
            return { ...grant, private_http: drop(grant.private_http) };
        case 'secret':
            return { ...grant, secrets: drop(grant.secrets) };
        case 'spawn':
            return { ...grant, spawn: drop(grant.spawn) };
        case 'env':
            return { ...grant, environment: rest(grant.environment) };
        default:
            return { ...grant, folders: rest(grant.folders) };
    }
}

/** The value of a flag: what is granted, of something that was asked for by name. */
const valueOf = (ask: Ask, more = '') => (['read', 'write', 'environment'].includes(ask.kind) ? `${ask.name}=${more}` : ask.name);

interface EditorProps {
    plugin: Plugin;
    draft: Grant;
    set(draft: Grant): void;
    /** What this version asks for; all versions if absent. */
    of?: Version;
    disabled?: boolean;
}

/** A tick for each thing that was asked for, with what belongs to it. */
function Asked({ plugin, draft, set, of, disabled }: EditorProps) {
    const versions = of ? [of] : plugin.versions;
    const all = new Map<string, { ask: Ask; by: string[] }>();
    for (const version of versions) {
        for (const ask of asks(version.manifest)) {
            const known = all.get(keyOf(ask));
            if (known) known.by.push(version.version);
            else all.set(keyOf(ask), { ask, by: [version.version] });
        }
    }
    const rows = [...all.values()].sort((a, b) => KINDS.indexOf(a.ask.kind) - KINDS.indexOf(b.ask.kind));
    const stored = useResource(may('administer') && rows.some(({ ask }) => ask.kind === 'secrets') ? 'secrets' : null, (signal) => get<{ secrets: { name: string }[] }>('/secrets', signal));
    return (
        <ul class="grants">
            {rows.map(({ ask, by }) => (
                <AskedRow key={keyOf(ask)} ask={ask} draft={draft} set={set} disabled={disabled} by={by.length === versions.length ? '' : by.map(short).join(', ')} missing={ask.kind === 'secrets' && !!stored.data && !stored.data.secrets.some((one) => one.name === ask.name)} />
            ))}
            <AskedLimits versions={versions} draft={draft} set={set} disabled={disabled} />
        </ul>
    );
}

function AskedRow({ ask, draft, set, by, missing, disabled }: { ask: Ask; draft: Grant; set(draft: Grant): void; by: string; missing: boolean; disabled?: boolean }) {
    const stands = standing(ask, draft);
    // A wider grant gives it: that one is what can be taken back.
    const wider = stands.gives === 'all' && stands.by !== undefined && !['read', 'write'].includes(ask.kind) && stands.by !== ask.name;
    const on = stands.gives === 'all' || (stands.gives === 'part' && (ask.kind === 'read' || ask.kind === 'write'));
    const isPrivate = draft.private_http.includes(ask.name);
    const current: Flag = { flag: ask.kind === 'http' && isPrivate ? 'private-http' : FLAGS[ask.kind], value: valueOf(ask, draft.folders[ask.name]?.path ?? draft.environment[ask.name] ?? '') };
    const give = (more = '') => set(granting(draft, { flag: FLAGS[ask.kind], value: valueOf(ask, more) }));
    return (
        <li class={on ? '' : 'denied'}>
            <div class="row wrap">
                <Check label={WORDS[ask.kind](ask.name)} checked={on} disabled={disabled || wider} set={(now) => (now ? give() : set(without(without(draft, current), { flag: 'private-http', value: ask.name })))} />
                <span class="push dim">
                    {wider ? `granted by ${stands.by}` : stands.gives === 'part' ? `in part: ${stands.by}` : on ? 'granted' : 'denied'}
                    {by && ` · asked by ${by}`}
                </span>
            </div>
            {on && ask.kind === 'http' && !wider && (
                <Check
                    label="at private and local addresses, too"
                    checked={isPrivate}
                    disabled={disabled}
                    set={(now) => set(granting(without(draft, { flag: now ? 'http' : 'private-http', value: ask.name }), { flag: now ? 'private-http' : 'http', value: ask.name }))}
                />
            )}
            {on && (ask.kind === 'read' || ask.kind === 'write') && (
                <Field label={`Folder of the server, seen as ${ask.name}`} placeholder="/srv/data" required disabled={disabled} spellcheck={false} value={draft.folders[ask.name]?.path ?? ''} set={give} hint="It must be inside a grant root of the server (serve --grant-root)." />
            )}
            {on && ask.kind === 'environment' && <Field label={`Value of ${ask.name}`} disabled={disabled} spellcheck={false} value={draft.environment[ask.name] ?? ''} set={give} />}
            {missing && (
                <p class="warn-line">
                    No such secret is stored: <a href={href('/secrets')}>set it</a>
                </p>
            )}
        </li>
    );
}

/** Limits above what everybody gets need a grant, too. */
function AskedLimits({ versions, draft, set, disabled }: { versions: Version[]; draft: Grant; set(draft: Grant): void; disabled?: boolean }) {
    const rows = LIMITS.map((limit) => {
        const asked = Math.max(...versions.map((version) => amount(rawLimit(version.manifest.limits, limit.key), limit.unit) ?? 0));
        const raw = versions.map((version) => rawLimit(version.manifest.limits, limit.key)).find((value) => amount(value, limit.unit) === asked);
        return { limit, asked, raw: String(raw ?? ''), granted: rawLimit(draft.limits, limit.key) };
    }).filter(({ limit, asked, granted }) => (granted !== null && granted !== undefined) || (limit.usual !== null && asked > limit.usual));
    const put = (key: string, value: string | null) => {
        if (value !== null) return set(granting(draft, { flag: flagOf(key), value }));
        const limits = key.startsWith('http.') ? { ...draft.limits, http: { ...draft.limits.http, [key.slice(5)]: null } } : { ...draft.limits, [key]: null };
        set({ ...draft, limits });
    };
    return (
        <>
            {rows.map(({ limit, asked, raw, granted }) => {
                const on = granted !== null && granted !== undefined;
                const enough = (amount(granted, limit.unit) ?? limit.usual ?? Infinity) >= asked;
                return (
                    <li key={limit.key} class={enough ? '' : 'denied'}>
                        <div class="row wrap">
                            <Check label={`${limit.title} beyond ${said(limit.usual, limit.unit)}`} checked={on} disabled={disabled} set={(now) => put(limit.key, now ? raw : null)} />
                            <span class="push dim">{asked ? `${said(asked, limit.unit)} asked for${enough ? '' : ', denied'}` : 'not asked for'}</span>
                        </div>
                        {on && <Field label={`At most, ${limit.title}`} disabled={disabled} value={String(granted)} set={(text) => put(limit.key, text)} />}
                    </li>
                );
            })}
        </>
    );
}

export function Grants({ plugin, reload }: Part) {
    const [draft, setDraft] = useState(plugin.grant);
    const known = JSON.stringify(plugin.grant);
    // What somebody else saves meanwhile is taken over.
    useEffect(() => setDraft(plugin.grant), [known]);
    const administers = may('administer');
    const missing = lacks(draft);
    const action = missing ? null : saving(plugin, draft);
    const asked = plugin.versions.flatMap((version) => asks(version.manifest));
    const more = further(draft, asked);
    const save = () => action && show((close) => <FormDialog title="Save the grants" action={action} close={close} after={reload} />);
    return (
        <div class="split">
            <div>
                <Panel title="What its versions ask for" aside={plugin.denied.length ? plural(plugin.denied.length, 'thing') + ' denied to the active one' : 'nothing is denied to the active one'}>
                    {asked.length === 0 && <p class="dim">No version asks for anything beyond computing.</p>}
                    <Asked plugin={plugin} draft={draft} set={setDraft} disabled={!administers} />
                </Panel>
                <Tried plugin={plugin} draft={draft} add={administers ? (flag) => setDraft(granting(draft, flag)) : undefined} />
                {(more.length > 0 || administers) && (
                    <Panel title="Granted beyond that" aside="wider grants, and those that nobody asks for yet">
                        <ul class="grants">
                            {more.map((flag) => (
                                <li key={flag.flag + flag.value}>
                                    <Check label={inWords(flag)} checked disabled={!administers} set={() => setDraft(without(draft, flag))} />
                                </li>
                            ))}
                        </ul>
                        {administers && <More add={(flag) => setDraft(granting(draft, flag))} />}
                    </Panel>
                )}
            </div>
            <aside>
                <Panel title="Changes">
                    {!administers ? (
                        <p class="dim">Granting needs the permission “administer”: whoever deploys a plugin does not decide what it may reach.</p>
                    ) : action ? (
                        <>
                            <p role="status">{action.does}</p>
                            <p class="acts">
                                <button type="button" class="main" onClick={save}>
                                    Save the grants…
                                </button>
                                <button type="button" onClick={() => setDraft(plugin.grant)}>
                                    Undo
                                </button>
                            </p>
                            <AsCommands action={action} />
                        </>
                    ) : missing ? (
                        <p role="status">{missing}</p>
                    ) : (
                        <p class="dim">Nothing is changed. A tick counts when it is saved, from the next attempt on.</p>
                    )}
                </Panel>
            </aside>
        </div>
    );
}

/** What attempts tried and were refused: it may be more than any manifest asks for. */
function Tried({ plugin, draft, add }: { plugin: Plugin; draft: Grant; add?(flag: Flag): void }) {
    const { denials } = plugin;
    if (denials.length === 0) return null;
    const asked = plugin.versions.find((one) => one.version === plugin.active);
    const asks_ = asked ? asks(asked.manifest) : [];
    const given = flagsOf(draft);
    return (
        <Panel title="Tried and denied" aside="since the server started">
            <ul class="grants">
                {[...denials].reverse().map((denial) => {
                    const flag = flagFor(denial);
                    const has = given.some((one) => one.flag === flag.flag && one.value === flag.value);
                    return (
                        <li key={flag.flag + flag.value}>
                            <div class="row wrap">
                                <span>{inWords(flag)}</span>
                                <span class="push dim">
                                    {plural(denial.times ?? 1, 'attempt')}, such as <JobLink id={denial.job_id} />
                                </span>
                                {add && (
                                    <button type="button" disabled={has} onClick={() => add(flag)}>
                                        {has ? 'Added' : 'Grant'}
                                    </button>
                                )}
                            </div>
                            {!covers(asks_, flag) && <p class="warn-line">The manifest of the active version does not ask for it, so a grant alone changes nothing.</p>}
                        </li>
                    );
                })}
            </ul>
        </Panel>
    );
}

const KIND_NAMES: Record<string, [string, string]> = {
    http: ['a host', 'api.example.com or *.example.com'],
    'private-http': ['a private host', 'localhost:8080'],
    read: ['a folder to read', '/data=/srv/data'],
    write: ['a folder to write', '/out=/srv/out'],
    env: ['a variable', 'TZ=UTC'],
    secret: ['a secret', 'token'],
    spawn: ['a queue for its jobs', 'invoices.*'],
    ...Object.fromEntries(LIMITS.map((limit) => [flagOf(limit.key), [`limit: ${limit.title}`, limit.unit === 'size' ? '512MiB' : limit.unit === 'span' ? '30s' : '8']])),
};

function More({ add }: { add(flag: Flag): void }) {
    const [flag, setFlag] = useState('http');
    const [value, setValue] = useState('');
    const pairs = ['read', 'write', 'env'].includes(flag);
    const submit = (event: Event) => {
        event.preventDefault();
        add({ flag, value: value.trim() });
        setValue('');
    };
    return (
        <form class="row wrap more" onSubmit={submit}>
            <Select label="Grant" value={flag} set={setFlag} of={Object.fromEntries(Object.entries(KIND_NAMES).map(([key, [title]]) => [key, title]))} />
            <div class="grow">
                <Field label="Which" value={value} set={setValue} placeholder={KIND_NAMES[flag]?.[1]} spellcheck={false} />
            </div>
            <button type="submit" disabled={!value.trim() || (pairs && !/^[^=]+=./.test(value))}>
                Add
            </button>
        </form>
    );
}

/** Granting, right in the review of a version: everything that it asks for is ticked. */
export function openGrant(plugin: Plugin, version: Version, after: () => void) {
    show((close) => <GrantDialog plugin={plugin} version={version} close={close} after={after} />);
}

function GrantDialog({ plugin, version, close, after }: { plugin: Plugin; version: Version; close(): void; after(): void }) {
    const [draft, set] = useState(plugin.grant);
    const missing = lacks(draft);
    const action = missing ? null : saving(plugin, draft);
    return (
        <FormDialog title={`What ${short(version.version)} asks for`} action={action} why={missing || 'Tick what it may have.'} label="Save the grants" wide close={close} after={after}>
            <Asked plugin={plugin} draft={draft} set={set} of={find(plugin, version.version)} />
        </FormDialog>
    );
}
