// One version: what it could reach, against another one, before it is activated; and what to do with it.
import { ActionButton, bytes, count, Download, Facts, go, href, may, Panel, path, query, setQuery, Time } from '#kit';
import { openCanary } from './canary';
import { openGrant } from './grants';
import { activeOf, beforeActive, find, removingVersion, short, type Plugin, type Version } from './model';
import type { Part } from './one';
import { changes, compare, type Row } from './reach';
import { openActivate } from './swap';
import { lineDiff, toToml } from './toml';

const TONES = { '': '', new: 'warn-line', denied: 'dead-ink', gone: 'dimmer' };

function Rows({ rows }: { rows: Row[] }) {
    if (rows.length === 0) return <p class="dim">It asks for nothing beyond computing.</p>;
    return (
        <ul class="list reach">
            {rows.map((row) => (
                <li key={row.what} class={TONES[row.tone]}>
                    <span>{row.what}</span>
                    <span class={row.tone ? '' : 'dim'}>{row.stands}</span>
                </li>
            ))}
        </ul>
    );
}

/** The panel at the side: what a version can reach, and what it was refused. */
export function Reach({ plugin, version, against, reload }: { plugin: Plugin; version: Version; against?: Version; reload?(): void }) {
    const rows = compare(against, version, plugin.grant);
    const denied = rows.filter((row) => row.tone === 'denied');
    return (
        <Panel title={`What ${short(version.version)} can reach`} aside={against ? `against ${short(against.version)}` : undefined}>
            <Rows rows={rows} />
            {denied.length > 0 && may('administer') && (
                <p class="acts settings-act">
                    {reload ? (
                        <button type="button" class="main" onClick={() => openGrant(plugin, version, reload)}>
                            Grant what it asks for…
                        </button>
                    ) : (
                        <a class="button" href={href(`/plugins/${encodeURIComponent(plugin.name)}`, { tab: 'grants' })}>
                            Grants
                        </a>
                    )}
                </p>
            )}
        </Panel>
    );
}

export function Review({ plugin, reload, version }: Part & { version: Version }) {
    const own = `/plugins/${encodeURIComponent(plugin.name)}`;
    const isActive = version.version === plugin.active;
    const isTrial = version.version === plugin.canary?.version;
    const others = plugin.versions.filter((one) => one !== version);
    const against = find(plugin, query.value.get('against')) ?? (isActive ? beforeActive(plugin) : activeOf(plugin));
    const queues = changes(against?.manifest.queues ?? [], version.manifest.queues);
    const gone = () => go(href(own));
    return (
        <>
            <Panel
                class={`now is-${isActive ? 'completed' : isTrial ? 'held' : 'pending'}`}
                title={
                    <h2>
                        Version <span class="mono">{short(version.version)}</span> {isActive ? 'is active' : isTrial ? 'is on trial' : 'is stored, and runs nothing yet'}
                    </h2>
                }
                aside={
                    others.length > 0 && (
                        <label class="field-row">
                            against
                            <select value={against?.version ?? ''} onChange={(event) => setQuery({ against: event.currentTarget.value.slice(0, 12) })}>
                                {!against && <option value="">nothing</option>}
                                {others.map((one) => (
                                    <option key={one.version} value={one.version}>
                                        {short(one.version)}
                                        {one.version === plugin.active ? ', active' : ''}
                                    </option>
                                ))}
                            </select>
                        </label>
                    )
                }
            >
                {version.problem && <p class="wrong-line keep-lines">{version.problem}</p>}
                {queues.gone.length > 0 && !isActive && (
                    <p class="warn-line">It does not serve {queues.gone.join(', ')}: once it is active, jobs there wait for another plugin or for workers.</p>
                )}
                <div class="acts">
                    {may('deploy') && !isActive && (
                        <>
                            <button type="button" class="main" disabled={!!version.problem} onClick={() => openActivate(plugin, version, () => { reload(); gone(); })}>
                                Activate…
                            </button>
                            {plugin.active && !isTrial && (
                                <button type="button" disabled={!!version.problem} onClick={() => openCanary(plugin, version, () => { reload(); gone(); })}>
                                    Canary…
                                </button>
                            )}
                        </>
                    )}
                    {may('deploy') && <Download from={path(['plugins', plugin.name, 'component'], { version: version.version })} name={`${plugin.name}-${short(version.version)}.wasm`} />}
                    <a class="button" href={href(own, { tab: 'manifest', of: version.version.slice(0, 12) })}>
                        Manifest
                    </a>
                    {!isActive && !isTrial && <ActionButton action={removingVersion(plugin, version)} after={() => { reload(); gone(); }} />}
                </div>
            </Panel>
            <div class="split">
                <div>
                    <Reach plugin={plugin} version={version} against={against} reload={reload} />
                    <ManifestDiff version={version} against={against} />
                </div>
                <aside>
                    <Panel title="About it">
                        <Facts
                            of={[
                                ['Uploaded', <Time at={version.uploaded_at} />],
                                !!version.uploaded_by && ['By', version.uploaded_by],
                                ['Size', against ? `${bytes(version.size)}, ${sizeAgainst(version, against)}` : bytes(version.size)],
                                ['Running', count(version.running)],
                                ['SHA-256', <span class="mono">{version.version}</span>],
                                ['Queues', [...version.manifest.queues.map((queue) => (queues.added.includes(queue) && against ? `${queue} (new)` : queue)), ...queues.gone.map((queue) => `${queue} (no longer)`)].join(', ')],
                                !!version.manifest.schemas && ['Resumes', `checkpoints of schema ${version.manifest.schemas.join(', ')}`],
                            ]}
                        />
                    </Panel>
                    <Imports version={version} against={against} />
                </aside>
            </div>
        </>
    );
}

/** What changed is shown, all of it when it is opened. */
function Imports({ version, against }: { version: Version; against?: Version }) {
    const { added, gone } = against ? changes(against.imports, version.imports) : { added: [], gone: [] };
    const told = added.length || gone.length ? `${added.length} new, ${gone.length} gone` : against ? `as ${short(against.version)}` : undefined;
    const line = (name: string, mark: string) => (
        <li key={name} class={mark === 'new' ? 'warn-line' : mark ? 'dimmer' : ''}>
            <code>{name}</code> {mark}
        </li>
    );
    return (
        <Panel title="What it imports" aside={told}>
            {version.imports.length === 0 && gone.length === 0 && <p class="dim">Nothing: it only computes.</p>}
            <ul class="imports">
                {added.map((name) => line(name, 'new'))}
                {gone.map((name) => line(name, 'gone'))}
            </ul>
            <details>
                <summary>All {version.imports.length}</summary>
                <ul class="imports">{version.imports.map((name) => line(name, ''))}</ul>
            </details>
            <p class="dim">An import alone reaches nothing: what it gives is what is granted.</p>
        </Panel>
    );
}

function sizeAgainst(version: Version, against: Version): string {
    const more = version.size - against.size;
    return more === 0 ? 'as large as before' : `${bytes(Math.abs(more))} ${more > 0 ? 'more' : 'less'}`;
}

function ManifestDiff({ version, against }: { version: Version; against?: Version }) {
    const text = toToml(version.manifest);
    const lines = lineDiff(against ? toToml(against.manifest) : text, text);
    const differ = lines.some((line) => line.mark !== ' ');
    return (
        <Panel title="Manifest" aside={!against ? undefined : differ ? `what differs from ${short(against.version)}` : `the same as ${short(against.version)}`} flush>
            <pre class="diff" tabIndex={0} aria-label="The manifest, line by line">
                {lines.map((line, at) => (
                    <span key={at} class={line.mark === '+' ? 'plus' : line.mark === '-' ? 'minus' : ''}>
                        {`${line.mark} ${line.text}\n`}
                    </span>
                ))}
            </pre>
        </Panel>
    );
}
