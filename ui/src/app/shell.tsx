// What surrounds every page: navigation, search, the state of the connection, and who is signed in.
import { useEffect } from 'preact/hooks';
import { signal } from '@preact/signals';
import { get, namespace } from '../api/client';
import { addShortcuts, shortcuts } from './keys';
import { back, link, linkWhy, pause, paused, serverPaused, totals, trouble, tryAgain } from './live';
import { complain } from './notices';
import { Page, current, preload } from './page';
import { openPalette } from './palette';
import { theme, times, type Theme, type Times } from './prefs';
import { go, href, pathname } from './router';
import { routes, type Route } from './routes';
import { may, session, signOut } from './session';
import { Dialog, show } from '../components/dialog';
import { count } from '../components/format';
import { Time } from '../components/basics';

export const Mark = () => (
    <svg class="mark" width="18" height="18" viewBox="0 0 18 18" aria-hidden="true">
        <circle cx="9" cy="9" r="6.5" />
        <path d="M9 1v16M1 9h16" />
    </svg>
);

const menuOpen = signal(false);

export function Shell() {
    useEffect(() => {
        const jumps = routes.filter((route) => route.key).map((route) => ({ keys: `g ${route.key}`, does: route.title, group: 'Go to', run: () => go(href(route.path)) }));
        return addShortcuts([
            ...jumps,
            { keys: '?', does: 'this help', group: 'Everywhere', run: () => show((close) => <Help close={close} />) },
            { keys: 'Ctrl+K', does: 'search and commands', group: 'Everywhere', run: openPalette },
            { keys: '/', does: 'the filter of the page, or search', group: 'Everywhere', run: focusFilter },
            { keys: 'p', does: 'pause or resume live updates', group: 'Everywhere', run: () => pause(!paused.value) },
            { keys: 't', does: 'relative, local or UTC times', group: 'Everywhere', run: nextTimes },
        ]);
    }, []);
    useEffect(() => {
        menuOpen.value = false;
    }, [pathname.value]);
    return (
        <>
            <a class="skip" href="#main" onClick={skip}>
                Skip to the page
            </a>
            <div class="shell">
                <Navigation />
                <div class="column">
                    <Top />
                    <Banners />
                    <main id="main">
                        <Page />
                    </main>
                </div>
            </div>
        </>
    );
}

function skip(event: Event) {
    event.preventDefault();
    (document.querySelector('main h1') as HTMLElement | null)?.focus();
}

function focusFilter() {
    const field = document.querySelector<HTMLInputElement>('main [data-filter]');
    if (field) field.focus();
    else openPalette();
}

function nextTimes() {
    const order: Times[] = ['relative', 'local', 'utc'];
    times.value = order[(order.indexOf(times.value) + 1) % 3] ?? 'relative';
}

function Navigation() {
    const here = current()?.route;
    const group = (nav: Route['nav']) => routes.filter((route) => route.nav === nav && may(route.needs));
    return (
        <nav class={`side ${menuOpen.value ? 'open' : ''}`} aria-label="Pages" id="pages">
            <a class="brand" href={href('/')}>
                <Mark /> Windlass
            </a>
            {(['jobs', 'machine', 'access'] as const).map((name) => (
                <ul key={name}>
                    {group(name).map((route) => (
                        <li key={route.path}>
                            <a href={href(route.path)} aria-current={isHere(route, here) ? 'page' : undefined} onPointerEnter={() => preload(route.page)}>
                                {route.title}
                                <Badge of={route.path} />
                            </a>
                        </li>
                    ))}
                </ul>
            ))}
            <Foot />
        </nav>
    );
}

/** `/queues/emails` belongs to `/queues`. */
const isHere = (route: Route, here: Route | undefined) => !!here && (route === here || (route.path !== '/' && here.path.startsWith(route.path + '/')));

function Badge({ of }: { of: string }) {
    const now = totals.value;
    const [n, state] = of === '/dead' ? [now.dead, 'dead'] : of === '/held' ? [now.held, 'held'] : of === '/scheduled' ? [(now.scheduled ?? 0) + (now.retrying ?? 0), ''] : [0, ''];
    return n ? <span class={`badge is-${state}`}>{n > 9999 ? `${Math.floor(n / 1000)}k` : count(n)}</span> : null;
}

function Foot() {
    const known = session.value;
    if (!known) return null;
    return (
        <div class="foot">
            <p>
                {known.name ?? known.actor} · {known.role}
                {known.actor === 'insecure' && <span class="warn-line"> no keys</span>}
            </p>
            <div class="foot-row">
                <label>
                    <span class="sr">Colours</span>
                    <select value={theme.value} onChange={(event) => (theme.value = event.currentTarget.value as Theme)}>
                        <option value="system">System</option>
                        <option value="light">Light</option>
                        <option value="dark">Dark</option>
                    </select>
                </label>
                <label>
                    <span class="sr">Times</span>
                    <select value={times.value} onChange={(event) => (times.value = event.currentTarget.value as Times)}>
                        <option value="relative">Ago</option>
                        <option value="local">Local</option>
                        <option value="utc">UTC</option>
                    </select>
                </label>
            </div>
            {known.session && (
                <button type="button" class="quiet" onClick={() => signOut().catch(complain)}>
                    Sign out
                </button>
            )}
        </div>
    );
}

function Top() {
    return (
        <header class="top">
            <button type="button" class="menu quiet" aria-expanded={menuOpen.value} aria-controls="pages" onClick={() => (menuOpen.value = !menuOpen.value)}>
                <span class="sr">Pages</span>
                <svg width="18" height="18" viewBox="0 0 18 18" aria-hidden="true">
                    <path d="M2 4.5h14M2 9h14M2 13.5h14" />
                </svg>
            </button>
            <button type="button" class="search" onClick={openPalette}>
                <span>Search jobs, queues, plugins</span>
                <kbd>Ctrl K</kbd>
            </button>
            <NamespaceChoice />
            {may('read') && <LiveState />}
            {may('enqueue') && routes.some((route) => route.path === '/enqueue') && (
                <a class="button main" href={href('/enqueue')}>
                    Enqueue
                </a>
            )}
        </header>
    );
}

const namespaces = signal<string[]>([]);

/** Whoever may work in all namespaces chooses one; others see theirs. */
function NamespaceChoice() {
    const known = session.value;
    useEffect(() => {
        if (!known?.chooses_namespace || !may('administer-server')) return;
        get<{ namespaces: { name: string }[] } | { name: string }[]>('/namespaces')
            .then((found) => (namespaces.value = (Array.isArray(found) ? found : found.namespaces).map((one) => one.name)))
            .catch(() => undefined);
    }, [known?.chooses_namespace]);
    if (!known) return null;
    const all = [...new Set(['default', known.namespace, ...namespaces.value])];
    if (!known.chooses_namespace || all.length < 2) {
        return (
            <span class="namespace" title="The namespace you work in">
                {known.namespace}
            </span>
        );
    }
    return (
        <label class="namespace">
            <span class="sr">Namespace</span>
            <select value={namespace.value || known.namespace} onChange={(event) => go(href('/', {}, event.currentTarget.value === 'default' ? '' : event.currentTarget.value))}>
                {all.map((name) => (
                    <option key={name}>{name}</option>
                ))}
            </select>
        </label>
    );
}

function LiveState() {
    const state = paused.value ? 'paused' : link.value === 'live' ? 'live' : link.value === 'lost' ? 'offline' : 'connecting';
    return (
        <div class="live">
            <span class={`dot ${state}`} aria-hidden="true" />
            <span class="live-word">{state}</span>
            <button type="button" aria-pressed={paused.value} onClick={() => pause(!paused.value)} title="Keep what is shown as it is (p)">
                {paused.value ? 'Resume' : 'Pause'}
            </button>
        </div>
    );
}

function Banners() {
    return (
        <div class="banners" role="status" aria-live="polite">
            {link.value === 'lost' && (
                <div class="banner is-dead">
                    <span>Connection lost, trying again. What you see may be old: {linkWhy.value}.</span>
                    <button type="button" onClick={tryAgain}>
                        Now
                    </button>
                </div>
            )}
            {back.value && <div class="banner is-completed">Back: connected again.</div>}
            {trouble.value && <div class="banner is-dead">{trouble.value}</div>}
            {serverPaused.value && (
                <div class="banner is-retrying">
                    <span>
                        The whole server is paused since <Time at={serverPaused.value} />: nothing starts.
                    </span>
                </div>
            )}
        </div>
    );
}

function Help({ close }: { close(): void }) {
    const groups = new Map<string, { keys: string; does: string }[]>();
    for (const one of shortcuts.value) {
        const group = one.group ?? 'This page';
        const list = groups.get(group) ?? [];
        if (!list.some((other) => other.keys === one.keys)) groups.set(group, [...list, one]);
    }
    return (
        <Dialog title="Keys" onClose={close} wide>
            <div class="help">
                {[...groups].map(([group, list]) => (
                    <section key={group}>
                        <h3>{group}</h3>
                        <dl>
                            {list.map((one) => (
                                <div key={one.keys}>
                                    <dt>
                                        {one.keys.split(' ').map((key) => (
                                            <kbd key={key}>{key}</kbd>
                                        ))}
                                    </dt>
                                    <dd>{one.does}</dd>
                                </div>
                            ))}
                        </dl>
                    </section>
                ))}
            </div>
        </Dialog>
    );
}
