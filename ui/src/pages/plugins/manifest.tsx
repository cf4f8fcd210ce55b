// The manifest of a version, as a windlass.toml; it can be replaced.
import { useState } from 'preact/hooks';
import { Copy, FormDialog, href, may, Panel, path, query, show, type Action } from '#kit';
import { activeOf, find, short, type Plugin, type Version } from './model';
import type { Part } from './one';
import { toToml } from './toml';

export function ManifestTab({ plugin, reload }: Part) {
    const version = find(plugin, query.value.get('of')) ?? activeOf(plugin) ?? plugin.versions.at(-1);
    if (!version) return null;
    const text = toToml(version.manifest);
    const edit = () => show((close) => <Edit plugin={plugin} version={version} close={close} after={reload} />);
    return (
        <>
            {plugin.versions.length > 1 && (
                <div class="chips filters" role="group" aria-label="Versions">
                    {[...plugin.versions].reverse().map((one) => (
                        <a key={one.version} class="button chip" aria-current={one === version ? 'true' : undefined} href={href(`/plugins/${encodeURIComponent(plugin.name)}`, { tab: 'manifest', of: one.version.slice(0, 12) })}>
                            <span class="mono">{short(one.version)}</span>
                            {one.version === plugin.active && ' active'}
                        </a>
                    ))}
                </div>
            )}
            <Panel
                title={`windlass.toml of ${short(version.version)}`}
                aside={
                    <span class="row">
                        {version.manifest_revision > 0 && <span>replaced {version.manifest_revision === 1 ? 'once' : `${version.manifest_revision} times`}</span>}
                        <Copy text={text} label="Copy the manifest" />
                        {may('deploy') && (
                            <button type="button" onClick={edit}>
                                Edit…
                            </button>
                        )}
                    </span>
                }
                flush
            >
                <pre class="diff" tabIndex={0} aria-label="The manifest">
                    {text}
                </pre>
            </Panel>
            <p class="dim">What it asks for counts only as far as it is granted. A default is left out.</p>
        </>
    );
}

function Edit({ plugin, version, close, after }: { plugin: Plugin; version: Version; close(): void; after(): void }) {
    const [start] = useState(() => toToml(version.manifest));
    const [text, setText] = useState(start);
    const active = version.version === plugin.active;
    const action: Action | null =
        text !== start
            ? {
                  label: 'Replace the manifest',
                  does: active
                      ? `The next attempts of ${plugin.name} use it. Running ones keep the one that they started with.`
                      : `${short(version.version)} has it when it becomes active.`,
                  done: `The manifest of ${short(version.version)} is replaced`,
                  needs: 'deploy',
                  method: 'PUT',
                  path: path(['plugins', plugin.name, 'manifest'], { version: version.version }),
                  body: text,
                  shows: '@windlass.toml',
                  command: ['plugin', 'manifest', plugin.name, 'windlass.toml', '--of', short(version.version)],
              }
            : null;
    return (
        <FormDialog title={`Manifest of ${short(version.version)}`} action={action} wide close={close} after={after}>
            <label class="field">
                windlass.toml
                <textarea rows={22} spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} autofocus />
            </label>
        </FormDialog>
    );
}
