// Chooses the page by the address and loads its file.
import { Component, type ComponentChildren, type ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { effect } from '@preact/signals';
import { routes, type Route } from './routes';
import { href, match, pathname, visit } from './router';
import { may } from './session';
import { Empty, Failed, Loading, PageHead } from '../components/basics';

export type PageProps = Record<string, string>;
type Loaded = ComponentType<PageProps>;

const files = new Map<string, Promise<Loaded>>();

function load(page: string): Promise<Loaded> {
    const known = files.get(page);
    if (known) return known;
    const address = `./${page}.js`;
    const file = import(address).then((found: { default: Loaded }) => found.default);
    file.catch(() => files.delete(page));
    files.set(page, file);
    return file;
}

export const preload = (page: string) => void load(page).catch(() => undefined);

/** The route of the address and what its pattern found. */
export function current(): { route: Route; params: Record<string, string> } | null {
    for (const route of routes) {
        const params = match(route.path, pathname.value);
        if (params) return { route, params };
    }
    return null;
}

export function setTitle(text: string) {
    document.title = text ? `${text} · Windlass` : 'Windlass';
}

export function Page() {
    const found = current();
    const page = found?.route.page ?? '';
    const [shown, setShown] = useState<{ page: string; Loaded?: Loaded; error?: Error }>({ page: '' });
    useEffect(() => {
        if (!page) return;
        let gone = false;
        load(page).then(
            (Loaded) => !gone && setShown({ page, Loaded }),
            () => !gone && setShown({ page, error: new Error('This page could not be loaded. The server may be restarting; try again.') }),
        );
        return () => {
            gone = true;
        };
    }, [page]);
    useEffect(() => {
        if (found) setTitle(Object.values(found.params)[0] ?? found.route.title);
    }, [pathname.value]);
    useEffect(() => {
        if (visit.value > 0) scrollTo(0, 0);
    }, [visit.value]);

    if (!found) {
        return (
            <>
                <PageHead title="There is no such page" />
                <p>
                    <a href={href('/')}>To the overview</a>
                </p>
            </>
        );
    }
    if (!may(found.route.needs)) {
        return <Refused route={found.route} />;
    }
    if (shown.error && shown.page === page) return <Failed error={shown.error} retry={() => setShown({ page: '' })} />;
    if (!shown.Loaded || shown.page !== page) return <Loading rows={6} />;
    const { Loaded } = shown;
    return (
        <Guard key={pathname.value}>
            <Loaded {...found.params} />
        </Guard>
    );
}

/** Says what is missing, and what there is instead: some roles may not see the overview, where everybody arrives. */
function Refused({ route }: { route: Route }) {
    const others = routes.filter((other) => !other.path.includes(':') && may(other.needs));
    return (
        <>
            <PageHead title={route.title} />
            <Empty title={`${route.title} needs the permission “${route.needs}”`}>
                Your role does not include it; ask an admin for another key.
                {others.length > 0 && ' It includes '}
                {others.map((other, at) => (
                    <span key={other.path}>
                        {at > 0 && ', '}
                        <a href={href(other.path)}>{other.title}</a>
                    </span>
                ))}
                {others.length > 0 && '.'}
            </Empty>
        </>
    );
}

/** An error in a page does not take the rest with it. */
class Guard extends Component<{ children: ComponentChildren }, { error?: Error }> {
    override state: { error?: Error } = {};
    static override getDerivedStateFromError = (error: Error) => ({ error });
    override render() {
        if (!this.state.error) return this.props.children;
        console.error(this.state.error);
        return <Failed error={new Error(`This page stopped with an error: ${this.state.error.message}`)} retry={() => this.setState({ error: undefined })} />;
    }
}

/** Goes on preparing while nobody waits: the pages that are opened first. */
export function prepare() {
    const stop = effect(() => {
        const soon = ['queues', 'queue', 'job'].filter((page) => routes.some((route) => route.page === page));
        if (pathname.value)
            setTimeout(() => {
                // What is loaded from here on is for later, and no part of the first page: whoever measures it can tell them apart.
                performance.mark('windlass-ahead');
                soon.forEach(preload);
            }, 1500);
    });
    stop();
}
