// Signing in: a key, sent once for a session. It is in no storage, and leaves the field when it was sent.
import { useRef, useState } from 'preact/hooks';
import { explain } from './notices';
import { namespace } from '../api/client';
import { askWho, signIn, who } from './session';
import { Command } from '../components/basics';
import { Mark } from './shell';

export function SignIn() {
    const known = who.value;
    const field = useRef<HTMLInputElement>(null);
    const [busy, setBusy] = useState(false);
    const [wrong, setWrong] = useState('');
    if (known.is === 'somebody') return null;
    const submit = async (event: Event) => {
        event.preventDefault();
        const key = field.current?.value.trim() ?? '';
        if (!key) {
            setWrong('Paste a key first.');
            return field.current?.focus();
        }
        setBusy(true);
        setWrong('');
        try {
            await signIn(key);
        } catch (error) {
            setWrong(explain(error));
            field.current?.select();
        }
        setBusy(false);
    };
    return (
        <main class="sign-in" id="main">
            <div class="sign-in-box">
                <h1>
                    <Mark /> Windlass
                </h1>
                {known.is === 'asking' && <p class="dim">Asking the server…</p>}
                {known.is === 'unreachable' && (
                    <div role="alert">
                        <p>{known.why[0]?.toUpperCase() + known.why.slice(1)}.</p>
                        <div class="acts">
                            <button type="button" onClick={askWho}>
                                Try again
                            </button>
                            {namespace.value && (
                                // Loaded anew, because who is signed in depends on the namespace of the address.
                                <a class="button" href="/ui/" target="_self">
                                    To your own namespace
                                </a>
                            )}
                        </div>
                    </div>
                )}
                {known.is === 'nobody' && (
                    <>
                        {known.why && <p>{known.why}</p>}
                        <form onSubmit={submit}>
                            <label for="key">Key</label>
                            <input id="key" ref={field} type="password" autocomplete="off" spellcheck={false} placeholder="wl_…" aria-describedby="key-help" aria-invalid={!!wrong} autofocus />
                            {wrong && (
                                <p class="wrong-line" role="alert">
                                    {wrong}
                                </p>
                            )}
                            <button type="submit" class="main" disabled={busy}>
                                {busy ? 'Signing in…' : 'Sign in'}
                            </button>
                        </form>
                        {known.methods.includes('oidc') && (
                            <p>
                                <a class="button" href={`/api/v1/auth/oidc/login?to=${encodeURIComponent(location.pathname + location.search)}`}>
                                    Sign in with your organisation
                                </a>
                            </p>
                        )}
                        <div id="key-help" class="dim">
                            <p>The first key is in the data folder of the server:</p>
                            <Command text="cat windlass-data/admin.key" />
                            <p>It stays out of the browser: signing in makes a session, and the key is not kept.</p>
                        </div>
                    </>
                )}
            </div>
        </main>
    );
}
