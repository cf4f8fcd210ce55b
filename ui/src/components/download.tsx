// Saves something as a file.
import { useState } from 'preact/hooks';
import { namespace, refusal, send } from '../api/client';
import { complain } from '../app/notices';

export function saveAs(name: string, content: Blob) {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(content);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A link, which the browser follows without holding the file in memory. It cannot name a namespace, so in a chosen one the page reads it. */
export function Download({ from, name, small }: { from: string; name: string; small?: boolean }) {
    const [busy, setBusy] = useState(false);
    const look = `button ${small ? 'small' : ''}`;
    if (!namespace.value) {
        return (
            <a class={look} href={`/api/v1${from}`} download={name}>
                Download
            </a>
        );
    }
    const save = async () => {
        setBusy(true);
        try {
            const response = await send('GET', from);
            if (!response.ok) throw await refusal(response);
            saveAs(name, await response.blob());
        } catch (error) {
            complain(error);
        }
        setBusy(false);
    };
    return (
        <button type="button" class={look} disabled={busy} onClick={save}>
            {busy ? 'Loading…' : 'Download'}
        </button>
    );
}
