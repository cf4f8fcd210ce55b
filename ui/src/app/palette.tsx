// Ctrl K: pages, queues, plugins, a pasted id, and what can be done on the page that is shown.
import { useEffect, useRef, useState } from 'preact/hooks';
import { signal } from '@preact/signals';
import { get } from '../api/client';
import { queues } from './live';
import { go, href } from './router';
import { routes } from './routes';
import { may } from './session';
import { offered, showOffered } from '../components/actions';
import { Dialog, show } from '../components/dialog';

export interface Entry {
    text: string;
    /** What kind of thing it is, in a word. */
    kind: string;
    run(): void;
}

/** What the page that is shown adds. */
const ofPage = signal<Entry[]>([]);

export function usePaletteEntries(entries: Entry[], deps: unknown[]) {
    useEffect(() => {
        ofPage.value = entries;
        return () => {
            ofPage.value = [];
        };
    }, deps);
}

let isOpen = false;

export function openPalette() {
    if (isOpen) return;
    isOpen = true;
    show((close) => (
        <Palette
            close={() => {
                isOpen = false;
                close();
            }}
        />
    ));
}

const plugins = signal<string[]>([]);

/** Addresses of what an id names. */
function byId(text: string): Entry[] {
    const to = (kind: string, path: string): Entry => ({ text, kind, run: () => go(href(path)) });
    if (/^job_\w{26}$/i.test(text)) return [to('job', `/jobs/${text}`)];
    if (/^(batch|chain)_\w+$/i.test(text)) return [to('flow', `/flows/${text}`)];
    return [];
}

/** How well a text fits what was typed: its letters in order, and better the closer they are; 0: not at all. */
export function fits(text: string, typed: string): number {
    const [within, wanted] = [text.toLowerCase(), typed.toLowerCase()];
    const at = within.indexOf(wanted);
    if (at >= 0) return 1000 - at - text.length / 100;
    let [position, gaps] = [-1, 0];
    for (const letter of wanted.replaceAll(' ', '')) {
        const next = within.indexOf(letter, position + 1);
        if (next < 0) return 0;
        gaps += next - position - 1;
        position = next;
    }
    return Math.max(1, 400 - gaps * 8 - text.length / 100);
}

function entries(typed: string): Entry[] {
    const pages = routes.filter((route) => !route.path.includes(':') && may(route.needs));
    const all: Entry[] = [
        ...ofPage.value,
        ...(offered.value.length ? [{ text: 'What this page can do, as commands', kind: 'help', run: showOffered }] : []),
        ...pages.map((route) => ({ text: route.title, kind: 'page', run: () => go(href(route.path)) })),
        ...Object.keys(queues.value).map((name) => ({ text: name, kind: 'queue', run: () => go(href(`/queues/${encodeURIComponent(name)}`)) })),
        ...plugins.value.map((name) => ({ text: name, kind: 'plugin', run: () => go(href(`/plugins/${encodeURIComponent(name)}`)) })),
    ];
    if (!typed) return all.slice(0, 12);
    const ranked = all.map((entry) => ({ entry, rank: fits(entry.text, typed) })).filter((one) => one.rank > 0);
    ranked.sort((left, right) => right.rank - left.rank);
    const search: Entry = { text: `Search jobs for “${typed}”`, kind: 'search', run: () => go(href('/jobs', { q: typed })) };
    return [...byId(typed), ...ranked.slice(0, 11).map((one) => one.entry), ...(may('read') ? [search] : [])];
}

function Palette({ close }: { close(): void }) {
    const [typed, setTyped] = useState('');
    const [at, setAt] = useState(0);
    const list = useRef<HTMLUListElement>(null);
    useEffect(() => {
        if (!may('read')) return;
        get<{ plugins?: { name: string }[] } | { name: string }[]>('/plugins')
            .then((found) => (plugins.value = (Array.isArray(found) ? found : (found.plugins ?? [])).map((one) => one.name)))
            .catch(() => undefined);
    }, []);
    const found = entries(typed.trim());
    const choose = (entry: Entry | undefined) => {
        if (!entry) return;
        close();
        entry.run();
    };
    const move = (to: number) => {
        const next = (to + found.length) % Math.max(1, found.length);
        setAt(next);
        list.current?.children[next]?.scrollIntoView({ block: 'nearest' });
    };
    const keys = (event: KeyboardEvent) => {
        if (event.key === 'ArrowDown') move(at + 1);
        else if (event.key === 'ArrowUp') move(at - 1);
        else if (event.key === 'Enter') choose(found[at]);
        else return;
        event.preventDefault();
    };
    return (
        <Dialog title="Search and commands" onClose={close} class="palette">
            <input
                type="text"
                role="combobox"
                aria-label="Search jobs, queues, plugins and commands"
                aria-expanded="true"
                aria-controls="palette-list"
                aria-activedescendant={found[at] ? `palette-${at}` : undefined}
                placeholder="A page, queue, plugin or id"
                autocomplete="off"
                spellcheck={false}
                autofocus
                value={typed}
                onInput={(event) => {
                    setTyped(event.currentTarget.value);
                    setAt(0);
                }}
                onKeyDown={keys}
            />
            <ul id="palette-list" role="listbox" aria-label="What was found" ref={list}>
                {found.map((entry, index) => (
                    <li key={`${entry.kind} ${entry.text}`} id={`palette-${index}`} role="option" aria-selected={index === at} onClick={() => choose(entry)} onPointerMove={() => setAt(index)}>
                        <span class="palette-text">{entry.text}</span>
                        <span class="dimmer">{entry.kind}</span>
                    </li>
                ))}
            </ul>
        </Dialog>
    );
}
