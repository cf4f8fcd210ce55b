// The settings of a queue as they are; the dialogs of the page and the command change them.
import { Command, Failed, get, JsonText, Loading, Panel, path, useResource } from '#kit';

export function Settings({ name }: { name: string }) {
    const found = useResource(`settings of ${name}`, (signal) => get<{ settings: Record<string, unknown> }>(path(['queues', name]), signal), { everyMs: 10_000 });
    if (found.error && !found.data) return <Failed error={found.error} retry={found.reload} />;
    if (!found.data) return <Loading rows={6} />;
    return (
        <Panel title="Settings">
            <div class="stack">
                <JsonText text={JSON.stringify(found.data.settings)} label="settings" />
                <Command text={`windlass queue set ${name} --help`} />
            </div>
        </Panel>
    );
}
