// Uploading: a component is dropped or chosen, perhaps with its windlass.toml, and stored without being activated. What comes next is the
// review of what it could do.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, AsCommands, bytes, Dialog, Field, go, headers, href, may, notify, path, show, type Action } from '#kit';
import { short, type Plugin } from './model';

const MOST_BYTES = 64 * 1024 * 1024;

interface Uploaded extends Plugin {
    version: string;
    new_version: boolean;
}

/** Asks for what is to be uploaded; `name` fixes the plugin. */
export const openUpload = (options: { name?: string; files?: File[]; known?: Plugin[] } = {}) => show((close) => <Upload {...options} close={close} />);

/** While the page is shown, a file can be dropped anywhere on it. */
export function useDrop(options: { name?: string; known?: Plugin[] }): boolean {
    const [over, setOver] = useState(false);
    const latest = useRef(options);
    latest.current = options;
    useEffect(() => {
        if (!may('deploy')) return;
        const holdsFiles = (event: DragEvent) => event.dataTransfer?.types.includes('Files') ?? false;
        const onOver = (event: DragEvent) => {
            if (!holdsFiles(event)) return;
            event.preventDefault();
            setOver(true);
        };
        const onLeave = (event: DragEvent) => event.relatedTarget === null && setOver(false);
        const onDrop = (event: DragEvent) => {
            if (!holdsFiles(event)) return;
            event.preventDefault();
            setOver(false);
            openUpload({ ...latest.current, files: [...(event.dataTransfer?.files ?? [])] });
        };
        addEventListener('dragover', onOver);
        addEventListener('dragleave', onLeave);
        addEventListener('drop', onDrop);
        return () => {
            removeEventListener('dragover', onOver);
            removeEventListener('dragleave', onLeave);
            removeEventListener('drop', onDrop);
        };
    }, []);
    return over;
}

export const DropHint = ({ name }: { name?: string }) => (
    <div class="drop-hint" aria-hidden="true">
        <p>{name ? `A new version of ${name}` : 'A plugin, or a new version of one'}</p>
    </div>
);

/** What is wrong with a file before it is sent; the server looks closer. */
async function refused(file: File): Promise<string> {
    if (file.size > MOST_BYTES) return `${file.name} has ${bytes(file.size)}; a component has at most ${bytes(MOST_BYTES)}.`;
    const head = new Uint8Array(await file.slice(0, 8).arrayBuffer());
    if (head[0] !== 0 || head[1] !== 0x61 || head[2] !== 0x73 || head[3] !== 0x6d) return `${file.name} is not WebAssembly.`;
    if (head[6] === 0) return `${file.name} is a core module. A plugin is a component; "windlass plugin build" makes one.`;
    return '';
}

/** `target/wasm32-wasip2/mail-sender.wasm` → `mail-sender`. */
const nameOf = (file: File) => file.name.replace(/\.(component\.)?wasm$/i, '').replace(/[^\w.:-]+/g, '-');

/** The browser's older way to send, because it is the only one that says how far it is. */
function put(address: string, file: File, manifest: string, told: (share: number) => void): { done: Promise<Uploaded>; stop(): void } {
    const request = new XMLHttpRequest();
    const done = new Promise<Uploaded>((resolve, reject) => {
        request.open('PUT', `/api/v1${address}`);
        for (const [key, value] of Object.entries(headers(true))) request.setRequestHeader(key, value);
        request.setRequestHeader('content-type', 'application/wasm');
        if (manifest) request.setRequestHeader('Windlass-Manifest', btoa(String.fromCharCode(...new TextEncoder().encode(manifest))));
        request.upload.onprogress = (event) => told(event.total ? event.loaded / event.total : 1);
        request.onerror = () => reject(new ApiError(0, 'UNREACHABLE', 'the server does not answer'));
        request.onabort = () => reject(new ApiError(0, 'STOPPED', 'the upload was stopped; nothing was stored'));
        request.onload = () => {
            let body: { error?: string; code?: string } = {};
            try {
                body = JSON.parse(request.responseText) as typeof body;
            } catch {
                // Something between here and the server answered in its own words.
            }
            if (request.status < 300) resolve(body as Uploaded);
            else reject(new ApiError(request.status, body.code ?? '', body.error ?? `status ${request.status}`));
        };
        request.send(file);
    });
    return { done, stop: () => request.abort() };
}

function Upload({ name: fixed, files, known, close }: { name?: string; files?: File[]; known?: Plugin[]; close(): void }) {
    const [file, setFile] = useState<File>();
    const [name, setName] = useState(fixed ?? '');
    const [queues, setQueues] = useState('');
    const [manifest, setManifest] = useState<{ name: string; text: string }>();
    const [share, setShare] = useState<number | null>(null);
    const [wrong, setWrong] = useState('');
    const running = useRef<{ stop(): void } | null>(null);
    const take = async (chosen: File[]) => {
        setWrong('');
        for (const one of chosen) {
            if (/\.(toml|json)$/i.test(one.name)) setManifest({ name: one.name, text: await one.text() });
            else {
                const why = await refused(one);
                if (why) setWrong(why);
                else {
                    setFile(one);
                    if (!fixed) setName((before) => before || nameOf(one));
                }
            }
        }
    };
    useEffect(() => {
        if (files) void take(files);
        return () => running.current?.stop();
    }, []);
    const exists = fixed !== undefined || (known ?? []).some((one) => one.name === name);
    const action: Pick<Action, 'method' | 'path' | 'body' | 'shows' | 'command'> = {
        method: 'PUT',
        path: path(['plugins', name || 'NAME'], { activate: 'false', queues: queues.replaceAll(' ', '') }),
        body: '',
        shows: `@${file?.name ?? 'plugin.wasm'}`,
        command: ['plugin', 'push', name || 'NAME', file?.name ?? 'plugin.wasm', '--no-activate', ...(queues ? ['--queues', queues.replaceAll(' ', '')] : []), ...(manifest ? ['--manifest', manifest.name] : [])],
    };
    const send = async (event: Event) => {
        event.preventDefault();
        if (!file || !name || share !== null) return;
        setWrong('');
        setShare(0);
        const sending = put(action.path, file, manifest?.text ?? '', setShare);
        running.current = sending;
        try {
            const answer = await sending.done;
            running.current = null;
            notify(answer.new_version ? `Version ${short(answer.version)} of ${name} is stored; it is not active yet` : `${name} has this version already: ${short(answer.version)}`);
            close();
            go(href(`/plugins/${encodeURIComponent(name)}`, { version: answer.version.slice(0, 12) }));
        } catch (error) {
            setWrong(error instanceof Error ? error.message : String(error));
            setShare(null);
        }
    };
    const word = share === null ? 'Upload and review' : share < 1 ? `Uploading, ${Math.floor(share * 100)} %` : 'Checking and compiling…';
    return (
        <Dialog
            title={fixed ? `A new version of ${fixed}` : 'Upload a plugin'}
            onClose={close}
            foot={
                <>
                    <button type="button" onClick={close}>
                        {share === null ? 'Back' : 'Stop'}
                    </button>
                    <button type="submit" form="upload" class="main" disabled={!file || !name || share !== null}>
                        {word}
                    </button>
                </>
            }
        >
            <form id="upload" class="stack" onSubmit={send}>
                <label class="drop-field">
                    <input type="file" accept=".wasm,.toml,application/wasm" multiple disabled={share !== null} onChange={(event) => void take([...(event.currentTarget.files ?? [])])} />
                    <span>
                        <b>{file ? file.name : 'Choose a component (.wasm), or drop one on the page'}</b>
                        <span class="dim">{file ? bytes(file.size) : 'Its windlass.toml may come with it.'}</span>
                    </span>
                </label>
                {!fixed && <Field label="Name of the plugin" required spellcheck={false} value={name} set={setName} placeholder="mailer" hint={exists ? 'This plugin exists: it gets a new version.' : undefined} />}
                <Field
                    label="Queues that it serves"
                    spellcheck={false}
                    value={queues}
                    set={setQueues}
                    placeholder="emails.send, emails.digest"
                    hint={exists ? 'Empty: those of its manifest, or those that the plugin serves.' : 'Empty: those of its manifest, or the queue of its own name.'}
                />
                <p class="dim">
                    {manifest ? (
                        <>
                            Manifest: <code>{manifest.name}</code>{' '}
                            <button type="button" class="quiet small" onClick={() => setManifest(undefined)}>
                                without it
                            </button>
                        </>
                    ) : exists ? (
                        'Without a manifest it gets that of the active version.'
                    ) : (
                        'Without a manifest it asks for nothing beyond computing.'
                    )}
                </p>
                <p>It is checked, compiled and stored. Nothing runs on it until you activate it, after a look at what it could reach.</p>
                {share !== null && (
                    <div class="bar wide" role="progressbar" aria-label="Upload" aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.floor(share * 100)}>
                        <i class="fill is-active" style={{ width: `${share * 100}%` }} />
                    </div>
                )}
                {wrong && (
                    <p class="wrong-line keep-lines" role="alert">
                        {wrong}
                    </p>
                )}
            </form>
            <AsCommands action={action} />
        </Dialog>
    );
}
