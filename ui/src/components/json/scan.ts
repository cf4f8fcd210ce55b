// Reads JSON text a level at a time: where each member begins and ends, without building anything from it. So a number stays the text that
// it is, whatever its size, and a value of many megabytes costs only what is shown of it.

export type Kind = 'object' | 'array' | 'string' | 'number' | 'word';

export interface Node {
    /** In an object, the member's name; in an array, its index. */
    name: string | number | null;
    kind: Kind;
    start: number;
    end: number;
}

const SPACE = new Set([0x20, 0x09, 0x0a, 0x0d]);

function kindAt(text: string, at: number): Kind {
    switch (text[at]) {
        case '{':
            return 'object';
        case '[':
            return 'array';
        case '"':
            return 'string';
        case 't':
        case 'f':
        case 'n':
            return 'word';
        default:
            return 'number';
    }
}

function skipSpace(text: string, at: number): number {
    while (SPACE.has(text.charCodeAt(at))) at += 1;
    return at;
}

/** After the closing quote. */
function skipString(text: string, at: number): number {
    for (at += 1; ; ) {
        const end = text.indexOf('"', at);
        if (end < 0) return text.length;
        let slashes = 0;
        while (text.charCodeAt(end - 1 - slashes) === 0x5c) slashes += 1;
        if (slashes % 2 === 0) return end + 1;
        at = end + 1;
    }
}

/** After the value that begins here. The text is known to be JSON. */
function skipValue(text: string, at: number): number {
    const first = text[at];
    if (first === '"') return skipString(text, at);
    if (first !== '{' && first !== '[') {
        while (at < text.length && !',]}'.includes(text[at] as string) && !SPACE.has(text.charCodeAt(at))) at += 1;
        return at;
    }
    let depth = 0;
    while (at < text.length) {
        const code = text.charCodeAt(at);
        if (code === 0x22) {
            at = skipString(text, at);
            continue;
        }
        if (code === 0x7b || code === 0x5b) depth += 1;
        if (code === 0x7d || code === 0x5d) {
            depth -= 1;
            if (depth === 0) return at + 1;
        }
        at += 1;
    }
    return at;
}

/** The value that the whole text is. */
export function root(text: string): Node {
    const start = skipSpace(text, 0);
    return { name: null, kind: kindAt(text, start), start, end: skipValue(text, start) };
}

/** The members of an object or an array, at most so many from here on; `next` is where to go on. */
export function members(text: string, node: Node, limit: number, from?: { at: number; index: number }): { nodes: Node[]; next: { at: number; index: number } | null } {
    const nodes: Node[] = [];
    let at = from?.at ?? node.start + 1;
    let index = from?.index ?? 0;
    const close = node.kind === 'object' ? '}' : ']';
    for (;;) {
        at = skipSpace(text, at);
        if (at >= node.end - 1 || text[at] === close) return { nodes, next: null };
        if (nodes.length === limit) return { nodes, next: { at, index } };
        let name: string | number = index;
        if (node.kind === 'object') {
            const end = skipString(text, at);
            name = stringAt(text, at, end);
            at = skipSpace(text, end) + 1;
            at = skipSpace(text, at);
        }
        const end = skipValue(text, at);
        nodes.push({ name, kind: kindAt(text, at), start: at, end });
        index += 1;
        at = skipSpace(text, end);
        if (text[at] === ',') at += 1;
    }
}

/** A string as it was meant, or as it is written if it is broken. */
export function stringAt(text: string, start: number, end: number): string {
    try {
        return JSON.parse(text.slice(start, end)) as string;
    } catch {
        return text.slice(start + 1, end - 1);
    }
}

/** Whether text is JSON. Cheap checks first: this parses what it is given. */
export function isJson(text: string): boolean {
    try {
        JSON.parse(text);
        return true;
    } catch {
        return false;
    }
}

/** The text with line breaks and indents, numbers as they are; for the clipboard and the editor. */
export function pretty(text: string): string {
    const out: string[] = [];
    const write = (node: Node, indent: string) => {
        if (node.kind !== 'object' && node.kind !== 'array') {
            out.push(text.slice(node.start, node.end));
            return;
        }
        const [open, close] = node.kind === 'object' ? ['{', '}'] : ['[', ']'];
        const { nodes } = members(text, node, Infinity);
        if (nodes.length === 0) {
            out.push(open + close);
            return;
        }
        out.push(open, '\n');
        for (const [at, child] of nodes.entries()) {
            out.push(indent + '  ');
            if (node.kind === 'object') out.push(JSON.stringify(child.name), ': ');
            write(child, indent + '  ');
            out.push(at === nodes.length - 1 ? '\n' : ',\n');
        }
        out.push(indent + close);
    };
    write(root(text), '');
    return out.join('');
}
