// Signing in: with the provider that the server knows, or with a key, sent once for a session. The key is in no storage, and leaves
// the field when it was sent.
import { useEffect, useRef, useState } from 'preact/hooks';
import { explain } from './notices';
import { namespace } from '../api/client';
import { setQuery } from './router';
import { askWho, signIn, who } from './session';
import { Command } from '../components/basics';
import { Mark } from './shell';

/** What the server says when somebody has come back from the provider and is not signed in. One word: a link could bring any text. */
const RETURNED: Record<string, string> = {
    again: 'That took too long, or was begun in another window. Try again.',
    declined: 'The provider did not sign you in.',
    refused: 'The answer of the provider was not accepted. The log of the server says why.',
    unreachable: 'The provider does not answer. Try again in a moment, or sign in with a key.',
    'no-role': 'You are known to the provider, but none of your groups has a role here. Ask an administrator of the server for one.',
};

const returned = () => RETURNED[new URLSearchParams(location.search).get('sign-in') ?? ''] ?? '';

export function SignIn() {
    const known = who.value;
    const field = useRef<HTMLInputElement>(null);
    const [busy, setBusy] = useState(false);
    const [wrong, setWrong] = useState('');
    const [refused] = useState(returned);
    // The word leaves the address, so that neither a reload nor a copied link repeats it.
    useEffect(() => setQuery({ 'sign-in': null }), []);
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
                        {refused ? (
                            <p class="wrong-line" role="alert">
                                {refused}
                            </p>
                        ) : (
                            known.why && <p>{known.why}</p>
                        )}
                        {known.provider && (
                            <>
                                <a class="button main" href={`/api/v1/auth/oidc/login?to=${encodeURIComponent(location.pathname + location.search)}`}>
                                    Sign in with {known.provider}
                                </a>
                                <p class="dim">Or with a key:</p>
                            </>
                        )}
                        <form onSubmit={submit}>
                            <label for="key">Key</label>
                            <input id="key" ref={field} type="password" autocomplete="off" spellcheck={false} placeholder="wl_…" aria-describedby="key-help" aria-invalid={!!wrong} autofocus={!known.provider} />
                            {wrong && (
                                <p class="wrong-line" role="alert">
                                    {wrong}
                                </p>
                            )}
                            <button type="submit" class="main" disabled={busy}>
                                {busy ? 'Signing in…' : 'Sign in'}
                            </button>
                        </form>
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
