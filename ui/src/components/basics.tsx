// The small parts that every page is made of.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { useArrival } from '../app/focus';
import { times } from '../app/prefs';
import { href } from '../app/router';
import { clockTime, dateTime, now, roughly, shortId } from './format';
import { notify } from '../app/notices';
import { offered, showOffered } from './actions';

/** A time as the person prefers it; the others are in its title. */
export function Time({ at, future, millis }: { at: string | null | undefined; future?: boolean; millis?: boolean }) {
    if (!at) return <span class="dimmer">–</span>;
    const when = new Date(at);
    const title = `${dateTime(when, false, true)} local\n${dateTime(when, true, true)}`;
    let text: string;
    if (times.value === 'relative') {
        const away = when.getTime() - now.value;
        text = away > 500 || future ? `in ${roughly(away)}` : `${roughly(-away)} ago`;
    } else {
        const utc = times.value === 'utc';
        const today = Math.abs(now.value - when.getTime()) < 12 * 3600_000;
        text = today ? clockTime(when, utc, millis) + (utc ? ' UTC' : '') : dateTime(when, utc, millis);
    }
    return (
        <time dateTime={at} title={title}>
            {text}
        </time>
    );
}

/** A state: its colour, and always its word. */
export const StatePill = ({ of, children }: { of: string; children?: ComponentChildren }) => <span class={`pill is-${of}`}>{children ?? of}</span>;

export function Panel(props: { title?: ComponentChildren; aside?: ComponentChildren; children: ComponentChildren; class?: string; flush?: boolean; label?: string }) {
    return (
        <section class={`panel ${props.class ?? ''}`} aria-label={props.label ?? (typeof props.title === 'string' ? props.title : undefined)}>
            {(props.title || props.aside) && (
                <div class="head">
                    {typeof props.title === 'string' ? <h2>{props.title}</h2> : props.title}
                    {props.aside && <div class="aside">{props.aside}</div>}
                </div>
            )}
            <div class={props.flush ? 'flush' : 'body'}>{props.children}</div>
        </section>
    );
}

/** The head of a page: where one is, what it is, and what one can do here. */
export function PageHead(props: { title: ComponentChildren; crumbs?: { text: string; href: string }[]; about?: ComponentChildren; actions?: ComponentChildren }) {
    const heading = useArrival();
    return (
        <div class="page-head">
            {props.crumbs && (
                <nav class="crumbs" aria-label="Above this page">
                    {props.crumbs.map((one) => (
                        <a key={one.href} href={one.href}>
                            {one.text}
                        </a>
                    ))}
                </nav>
            )}
            <div class="row wrap">
                <h1 tabIndex={-1} ref={heading}>{props.title}</h1>
                {props.about && <div class="about">{props.about}</div>}
                {props.actions && (
                    <div class="acts push">
                        {props.actions}
                        {offered.value.length > 0 && (
                            <button type="button" class="quiet mono" aria-label="What this page can do, as commands" title="What this page can do, as commands" onClick={showOffered}>
                                &gt;_
                            </button>
                        )}
                    </div>
                )}
            </div>
        </div>
    );
}

/** Nothing to show: why, and what to do next. */
export function Empty({ title, children, command }: { title: string; children?: ComponentChildren; command?: string }) {
    return (
        <div class="empty">
            <p class="empty-title">{title}</p>
            {children && <p>{children}</p>}
            {command && <Command text={command} />}
        </div>
    );
}

/** A line for the terminal, with a button that copies it. */
export function Command({ text }: { text: string }) {
    return (
        <div class="command">
            <code>{text}</code>
            <Copy text={text} />
        </div>
    );
}

export async function copy(text: string, what = 'Copied') {
    try {
        await navigator.clipboard.writeText(text);
        notify(what);
    } catch {
        notify('the browser did not allow to copy; select the text instead', { kind: 'wrong' });
    }
}

export function Copy({ text, label = 'Copy' }: { text: string; label?: string }) {
    const [done, set] = useState(false);
    const act = async () => {
        await copy(text, 'Copied');
        set(true);
        setTimeout(() => set(false), 1500);
    };
    return (
        <button type="button" class="quiet small" aria-label={label} onClick={act}>
            {done ? 'copied' : 'copy'}
        </button>
    );
}

/** Something could not be read. */
export function Failed({ error, retry }: { error: Error; retry?: () => void }) {
    return (
        <div class="failed" role="alert">
            <p>{error.message}</p>
            {retry && (
                <button type="button" onClick={retry}>
                    Try again
                </button>
            )}
        </div>
    );
}

export const Loading = ({ rows = 3 }: { rows?: number }) => (
    <div class="loading" role="status" aria-busy="true" aria-label="Loading">
        {Array.from({ length: rows }, (_, at) => (
            <div key={at} class="ghost" />
        ))}
    </div>
);

/** How full something is. `of` 0: nothing is known. */
export function Meter({ value, of, label, state = 'active', wide }: { value: number; of: number; label: string; state?: string; wide?: boolean }) {
    const share = of > 0 ? Math.min(100, (value / of) * 100) : 0;
    return (
        <div class={`bar ${wide ? 'wide' : ''}`} role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={of} aria-valuenow={Math.min(value, of)}>
            <i class={`fill is-${state}`} style={{ width: `${share}%` }} />
        </div>
    );
}

/** Tabs whose choice is in the address. */
export function Tabs({ tabs, current, href: address, label }: { tabs: { key: string; title: ComponentChildren }[]; current: string; href(key: string): string; label: string }) {
    return (
        <nav class="tabs" aria-label={label}>
            {tabs.map((one) => (
                <a key={one.key} href={address(one.key)} aria-current={one.key === current ? 'page' : undefined}>
                    {one.title}
                </a>
            ))}
        </nav>
    );
}

export const QueueLink = ({ name }: { name: string }) => <a href={href(`/queues/${encodeURIComponent(name)}`)}>{name}</a>;
export const JobLink = ({ id, whole }: { id: string; whole?: boolean }) => (
    <a class="mono" href={href(`/jobs/${encodeURIComponent(id)}`)} title={id}>
        {whole ? id : shortId(id)}
    </a>
);


/** Terms and what they are. */
export function Facts({ of }: { of: ([string, ComponentChildren] | false | null | undefined | '')[] }) {
    return (
        <dl class="facts">
            {of.map(
                (one) =>
                    one && (
                        <>
                            <dt key={`t${one[0]}`}>{one[0]}</dt>
                            <dd key={`d${one[0]}`}>{one[1]}</dd>
                        </>
                    ),
            )}
        </dl>
    );
}
