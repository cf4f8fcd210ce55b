// Tables: rows that open, can be chosen and walked through with the keyboard, and of which only those in view are in the page.
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useSignal, type Signal } from '@preact/signals';
import { addShortcuts } from '../app/keys';
import { go } from '../app/router';

export interface Column<T> {
    key: string;
    title: string;
    cell(row: T): ComponentChildren;
    /** A figure: right-aligned. */
    num?: boolean;
    /** CSS; columns without one share what is left. */
    width?: string;
    /** Only where there is room: from 640, 900 or 1200 px. */
    from?: 's' | 'm' | 'l';
    /** Clicking the title sorts by this. */
    sort?: string;
}

export interface Sort {
    by: string;
    down: boolean;
    set(by: string, down: boolean): void;
}

interface Props<T> {
    label: string;
    columns: Column<T>[];
    rows: T[];
    rowKey(row: T): string;
    /** Where a row leads. */
    href?(row: T): string;
    sort?: Sort;
    /** The keys of the chosen rows; without it none can be chosen. */
    chosen?: Signal<Set<string>>;
    empty?: ComponentChildren;
    rowClass?(row: T): string;
    /** Called when the end of the rows comes into view. */
    more?(): void;
    foot?: ComponentChildren;
}

const ROW_PX = 36;
/** Rows above and below what is in view, so that scrolling shows no gap. */
const SPARE = 12;
/** Fewer are drawn as they are. */
const WHOLE = 80;

export function Table<T>(props: Props<T>) {
    const { columns, rows, rowKey, chosen } = props;
    const body = useRef<HTMLTableSectionElement>(null);
    const cursor = useSignal(-1);
    const [from, to] = useWindow(body, rows.length, props.more);

    // Before the rows can be seen, so that a key which follows at once finds them.
    useLayoutEffect(() => {
        const open = () => {
            const row = rows[cursor.value];
            if (row !== undefined && props.href) go(props.href(row));
        };
        const move = (by: number) => {
            cursor.value = Math.max(0, Math.min(rows.length - 1, cursor.value + by));
            const top = (body.current?.getBoundingClientRect().top ?? 0) + cursor.value * ROW_PX;
            if (top < 120) scrollBy(0, top - 120);
            else if (top > innerHeight - 80) scrollBy(0, top - innerHeight + 80);
        };
        const list = [
            { keys: 'j', does: 'next row', group: 'Lists', run: () => move(1) },
            { keys: 'k', does: 'previous row', group: 'Lists', run: () => move(-1) },
        ];
        if (props.href) list.push({ keys: 'Enter', does: 'open the row', group: 'Lists', run: open });
        if (chosen) {
            const choose = () => {
                const row = rows[cursor.value];
                if (row !== undefined) toggle(chosen, rowKey(row));
            };
            list.push({ keys: 'x', does: 'choose the row', group: 'Lists', run: choose });
        }
        return addShortcuts(list);
    }, [rows, props.href, chosen]);

    const keys = useMemo(() => rows.map(rowKey), [rows]);
    if (rows.length === 0 && props.empty) return <>{props.empty}</>;
    const all = chosen ? keys.length > 0 && keys.every((key) => chosen.value.has(key)) : false;
    const click = (event: MouseEvent, row: T) => {
        if (!props.href || (event.target as Element).closest('a, button, input, label, summary') || getSelection()?.toString()) return;
        if (event.metaKey || event.ctrlKey) window.open(props.href(row), '_blank', 'noopener');
        else go(props.href(row));
    };
    return (
        <div class="table-wrap">
            <table aria-label={props.label} aria-rowcount={rows.length + 1} class={props.href ? 'opens' : ''}>
                <thead>
                    <tr>
                        {chosen && (
                            <th class="pick">
                                <input
                                    type="checkbox"
                                    aria-label={`Choose all ${rows.length} rows`}
                                    checked={all}
                                    onChange={() => (chosen.value = all ? new Set() : new Set(keys))}
                                />
                            </th>
                        )}
                        {columns.map((column) => (
                            <Head key={column.key} column={column} sort={props.sort} />
                        ))}
                    </tr>
                </thead>
                <tbody ref={body}>
                    {from > 0 && <Gap rows={from} />}
                    {rows.slice(from, to).map((row, offset) => {
                        const key = keys[from + offset] as string;
                        const here = cursor.value === from + offset;
                        return (
                            <tr
                                key={key}
                                aria-rowindex={from + offset + 2}
                                class={`${here ? 'cursor' : ''} ${chosen?.value.has(key) ? 'chosen' : ''} ${props.rowClass?.(row) ?? ''}`}
                                onClick={(event) => click(event, row)}
                            >
                                {chosen && (
                                    <td class="pick">
                                        <input type="checkbox" aria-label={`Choose ${key}`} checked={chosen.value.has(key)} onChange={() => toggle(chosen, key)} />
                                    </td>
                                )}
                                {columns.map((column) => (
                                    <td key={column.key} class={classOf(column)}>
                                        {column.cell(row)}
                                    </td>
                                ))}
                            </tr>
                        );
                    })}
                    {to < rows.length && <Gap rows={rows.length - to} />}
                </tbody>
            </table>
            {props.foot}
        </div>
    );
}

/** The buttons of a row are under the key `do`: on a phone they need more room than a figure. */
const classOf = <T,>(column: Column<T>) => `${column.num ? 'num' : ''} ${column.key === 'do' ? 'do' : ''} ${column.from ? `from-${column.from}` : ''}`;

function Head<T>({ column, sort }: { column: Column<T>; sort?: Sort }) {
    const by = column.sort;
    const style = column.width ? { '--w': column.width } : undefined;
    if (!sort || !by) {
        return (
            <th scope="col" class={classOf(column)} style={style}>
                {column.title || <span class="sr">Further</span>}
            </th>
        );
    }
    const mine = sort.by === by;
    return (
        <th scope="col" class={classOf(column)} style={style} aria-sort={mine ? (sort.down ? 'descending' : 'ascending') : 'none'}>
            <button type="button" class="sort" onClick={() => sort.set(by, mine ? !sort.down : true)}>
                {column.title}
                <span aria-hidden="true">{mine ? (sort.down ? ' ↓' : ' ↑') : ''}</span>
            </button>
        </th>
    );
}

const Gap = ({ rows }: { rows: number }) => (
    <tr class="gap" aria-hidden="true">
        <td style={{ height: `${rows * ROW_PX}px` }} />
    </tr>
);

export function toggle(chosen: Signal<Set<string>>, key: string) {
    const next = new Set(chosen.value);
    if (!next.delete(key)) next.add(key);
    chosen.value = next;
}

/** The rows that are in view, of so many. */
function useWindow(body: { current: HTMLElement | null }, count: number, more?: () => void): [number, number] {
    const [[from, to], set] = useState<[number, number]>([0, Math.min(count, WHOLE)]);
    const ask = useRef(more);
    ask.current = more;
    useEffect(() => {
        const look = () => {
            const top = body.current?.getBoundingClientRect().top ?? 0;
            const first = Math.floor(-top / ROW_PX) - SPARE;
            const last = Math.ceil((innerHeight - top) / ROW_PX) + SPARE;
            const next: [number, number] = count <= WHOLE ? [0, count] : [Math.max(0, Math.min(first, count - 1)), Math.max(1, Math.min(count, last))];
            set((before) => (before[0] === next[0] && before[1] === next[1] ? before : next));
            if (last >= count && count > 0) ask.current?.();
        };
        look();
        addEventListener('scroll', look, { passive: true });
        addEventListener('resize', look, { passive: true });
        return () => {
            removeEventListener('scroll', look);
            removeEventListener('resize', look);
        };
    }, [count]);
    return [Math.min(from, count), Math.min(Math.max(to, 0), count)];
}
