// The application: what every page shares, and the shell around them. Pages are files of their own and import this one.
import { render } from 'preact';
import { listen } from './app/router';
import { listenToKeys } from './app/keys';
import { startLive } from './app/live';
import { Notices } from './app/notices';
import { askWho, session } from './app/session';
import { Shell } from './app/shell';
import { SignIn } from './app/signin';
import { prepare } from './app/page';
import { DialogPlace } from './components/dialog';

export * from 'preact';
export * from 'preact/hooks';
export * from '@preact/signals';
export { jsx, jsxs, jsxDEV } from 'preact/jsx-runtime';
export * from './kit';

function App() {
    return (
        <>
            {session.value ? <Shell /> : <SignIn />}
            <DialogPlace />
            <Notices />
        </>
    );
}

const place = document.getElementById('app');
if (place) {
    listen();
    listenToKeys();
    startLive();
    render(<App />, place);
    void askWho().then(prepare);
}
