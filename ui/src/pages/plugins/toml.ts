// A manifest as a `windlass.toml`, and the lines in which two of them differ.

const plainKey = (key: string) => (/^[\w-]+$/.test(key) ? key : JSON.stringify(key));
const isTable = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);

/** What says nothing is left out: the defaults do the same. */
function says(value: unknown): boolean {
    if (value === null || value === undefined) return false;
    if (Array.isArray(value)) return value.length > 0;
    return !isTable(value) || Object.values(value).some(says);
}

function inline(value: unknown): string {
    if (Array.isArray(value)) return `[${value.map(inline).join(', ')}]`;
    if (isTable(value)) {
        const parts = Object.entries(value).filter(([, one]) => one !== null);
        return parts.length ? `{ ${parts.map(([key, one]) => `${plainKey(key)} = ${inline(one)}`).join(', ')} }` : '{}';
    }
    return JSON.stringify(value);
}

/** As the documentation writes it; what is not listed comes last. */
const ORDER = ['queues', 'reuse', 'schemas', 'retry', 'limits', 'config', 'payload', 'capabilities'];
const place = (key: string) => (ORDER.includes(key) ? ORDER.indexOf(key) : ORDER.length);

function table(value: Record<string, unknown>, at: string[], out: string[]) {
    const sorted = at.length ? Object.entries(value) : Object.entries(value).sort(([a], [b]) => place(a) - place(b));
    const entries = sorted.filter(([key, one]) => says(one) && !(at.length === 0 && key === 'reuse' && one === 0));
    const scalars = entries.filter(([, one]) => !isTable(one));
    if (scalars.length && at.length) out.push('', `[${at.map(plainKey).join('.')}]`);
    for (const [key, one] of scalars) out.push(`${plainKey(key)} = ${inline(one)}`);
    for (const [key, one] of entries) {
        if (!isTable(one)) continue;
        // `http = false` and the like say nothing about how a component is built elsewhere.
        if (at.length === 0 && key === 'build' && Object.values(one).every((part) => !part)) continue;
        table(one, [...at, key], out);
    }
}

export function toToml(manifest: object): string {
    const out: string[] = [];
    table(manifest as Record<string, unknown>, [], out);
    return out.join('\n').trim() + '\n';
}

export interface DiffLine {
    mark: ' ' | '+' | '-';
    text: string;
}

/** The shortest way from one text to the other, by lines. */
export function lineDiff(before: string, after: string): DiffLine[] {
    const [a, b] = [before.trimEnd().split('\n'), after.trimEnd().split('\n')];
    const same: number[][] = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
    const at = (i: number, j: number) => same[i]?.[j] ?? 0;
    for (let i = a.length - 1; i >= 0; i--) {
        for (let j = b.length - 1; j >= 0; j--) (same[i] as number[])[j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
    const lines: DiffLine[] = [];
    let [i, j] = [0, 0];
    while (i < a.length || j < b.length) {
        if (i < a.length && j < b.length && a[i] === b[j]) {
            lines.push({ mark: ' ', text: a[i] as string });
            i++, j++;
        } else if (i < a.length && (j >= b.length || at(i + 1, j) >= at(i, j + 1))) lines.push({ mark: '-', text: a[i++] as string });
        else lines.push({ mark: '+', text: b[j++] as string });
    }
    return lines;
}
