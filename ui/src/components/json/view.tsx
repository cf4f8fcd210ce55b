// Shows a JSON value as a tree that opens where one looks. Everything from outside is text, never markup.
import { useMemo, useState } from 'preact/hooks';
import { Copy } from '../basics';
import { count, plural } from '../format';
import { isJson, members, pretty, root, stringAt, type Node } from './scan';

const PAGE = 100;
/** A longer string is shown in part. */
const STRING = 2000;
/** What is opened from the start: small values whole. */
const OPEN_CHARS = 4000;
/** Above this, checking a text would be noticed. */
const CHECKED_CHARS = 8_000_000;

/** A body as text: a tree if it is JSON, and else the text itself. */
export function JsonText({ text, label }: { text: string; label: string }) {
    const json = useMemo(() => text.length > CHECKED_CHARS || isJson(text), [text]);
    if (!json) return <PlainText text={text} label={label} />;
    return (
        <div class="json" role="group" aria-label={label}>
            <div class="json-tools">
                {text.length < 200_000 && <Copy text={pretty(text)} label={`Copy ${label}`} />}
            </div>
            <Tree text={text} />
        </div>
    );
}

function Tree({ text }: { text: string }) {
    const node = useMemo(() => root(text), [text]);
    return <Value text={text} node={node} depth={0} last />;
}

function Value({ text, node, depth, last }: { text: string; node: Node; depth: number; last: boolean }) {
    const holds = node.kind === 'object' || node.kind === 'array';
    const [open, setOpen] = useState(depth === 0 || (depth < 3 && node.end - node.start < OPEN_CHARS));
    const name = typeof node.name === 'string' ? <span class="json-name">{JSON.stringify(node.name)}: </span> : null;
    const comma = last ? '' : ',';
    if (!holds) {
        return (
            <div class="json-line">
                {name}
                <Leaf text={text} node={node} />
                {comma}
            </div>
        );
    }
    const [left, right] = node.kind === 'object' ? ['{', '}'] : ['[', ']'];
    const what = typeof node.name === 'string' ? node.name : node.name === null ? 'the value' : `item ${node.name}`;
    return (
        <div>
            <div class="json-line">
                <button type="button" class="json-open" aria-expanded={open} aria-label={`${open ? 'Close' : 'Open'} ${what}`} onClick={() => setOpen(!open)}>
                    {open ? '▾' : '▸'}
                </button>
                {name}
                {left}
                {!open && (
                    <>
                        <span class="dimmer"> {sizeOf(text, node)} </span>
                        {right}
                        {comma}
                    </>
                )}
            </div>
            {open && (
                <>
                    <Members text={text} node={node} depth={depth} />
                    <div class="json-line">
                        {right}
                        {comma}
                    </div>
                </>
            )}
        </div>
    );
}

function sizeOf(text: string, node: Node): string {
    const length = node.end - node.start;
    if (length > 100_000) return `${count(length)} characters`;
    const n = members(text, node, Infinity).nodes.length;
    return node.kind === 'object' ? plural(n, 'member') : plural(n, 'item');
}

function Members({ text, node, depth }: { text: string; node: Node; depth: number }) {
    const [pages, setPages] = useState(() => [members(text, node, PAGE)]);
    const next = pages.at(-1)?.next ?? null;
    const nodes = pages.flatMap((page) => page.nodes);
    return (
        <div class="json-members">
            {nodes.map((child, at) => (
                <Value key={child.start} text={text} node={child} depth={depth + 1} last={!next && at === nodes.length - 1} />
            ))}
            {next && (
                <button type="button" class="small" onClick={() => setPages([...pages, members(text, node, PAGE, next)])}>
                    {PAGE} more after {count(nodes.length)}
                </button>
            )}
        </div>
    );
}

function Leaf({ text, node }: { text: string; node: Node }) {
    const [whole, setWhole] = useState(false);
    if (node.kind !== 'string') return <span class={`json-${node.kind}`}>{text.slice(node.start, node.end)}</span>;
    const long = node.end - node.start > STRING;
    const shown = long && !whole ? stringAt(text, node.start, node.end).slice(0, STRING) : stringAt(text, node.start, node.end);
    return (
        <>
            <span class="json-string">{long && !whole ? JSON.stringify(shown).slice(0, -1) + '…' : JSON.stringify(shown)}</span>
            {long && !whole && (
                <button type="button" class="small quiet" onClick={() => setWhole(true)}>
                    show all {count(node.end - node.start)} characters
                </button>
            )}
        </>
    );
}

/** Text in parts: a browser lays a line of a megabyte out for seconds. */
export function PlainText({ text, label }: { text: string; label: string }) {
    const [shown, setShown] = useState(20_000);
    return (
        <div role="group" aria-label={label}>
            <pre class="plain" tabIndex={0}>
                {text.slice(0, shown)}
            </pre>
            {text.length > shown && (
                <button type="button" class="small" onClick={() => setShown(shown + 100_000)}>
                    Show more: {count(shown)} of {count(text.length)} characters
                </button>
            )}
        </div>
    );
}
