// Where a text stops being JSON, and why. The browser's own parser says it differently in each browser, and in some not at all.

export interface Wrong {
    at: number;
    line: number;
    column: number;
    why: string;
}

/** The server takes no deeper ones. */
const DEEPEST = 100;
const WORDS = ['true', 'false', 'null'];
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"/y;
const SPACE = /[ \t\r\n]*/y;

class Stop extends Error {
    constructor(
        readonly at: number,
        readonly why: string,
    ) {
        super(why);
    }
}

/** The first place that is not JSON; null if all of it is. */
export function firstError(text: string): Wrong | null {
    try {
        const end = value(text, 0, 0);
        if (end < text.length) throw new Stop(end, 'something follows the value');
        return null;
    } catch (stop) {
        if (!(stop instanceof Stop)) throw stop;
        const before = text.slice(0, stop.at).split('\n');
        return { at: stop.at, line: before.length, column: (before.at(-1) as string).length + 1, why: stop.why };
    }
}

function matched(pattern: RegExp, text: string, at: number): number {
    pattern.lastIndex = at;
    return pattern.test(text) ? pattern.lastIndex : -1;
}

const space = (text: string, at: number) => matched(SPACE, text, at);

/** After the value that begins here, and the space behind it. */
function value(text: string, from: number, depth: number): number {
    const at = space(text, from);
    const first = text[at];
    if (first === undefined) throw new Stop(at, 'a value is missing');
    if (first === '{' || first === '[') {
        if (depth >= DEEPEST) throw new Stop(at, `nested more than ${DEEPEST} levels deep`);
        return space(text, first === '{' ? members(text, at, depth) : items(text, at, depth));
    }
    if (first === '"') return space(text, string(text, at));
    const word = WORDS.find((one) => text.startsWith(one, at));
    const end = word ? at + word.length : matched(NUMBER, text, at);
    if (end < 0) throw new Stop(at, first === "'" ? 'texts are in double quotes' : 'a value begins with ", {, [, a digit, true, false or null');
    // `truely`, `012`, `1.` and the like.
    if (/[\w.+-]/.test(text[end] ?? '')) throw new Stop(end, word ? `“${word}” ends here` : 'this number is not one of JSON');
    return space(text, end);
}

function string(text: string, at: number): number {
    const end = matched(STRING, text, at);
    if (end >= 0) return end;
    const line = text.indexOf('\n', at);
    const quote = text.indexOf('"', at + 1);
    if (quote < 0 || (line >= 0 && line < quote)) throw new Stop(at, 'this text has no closing quote on its line');
    throw new Stop(at, 'this text has a character that must be escaped, or a wrong escape');
}

function members(text: string, open: number, depth: number): number {
    let at = space(text, open + 1);
    if (text[at] === '}') return at + 1;
    for (;;) {
        if (text[at] !== '"') throw new Stop(at, text[at] === '}' ? 'a comma stands before the closing brace' : 'a name in double quotes is missing');
        at = space(text, string(text, at));
        if (text[at] !== ':') throw new Stop(at, 'a colon is missing after the name');
        at = value(text, at + 1, depth + 1);
        if (text[at] === '}') return at + 1;
        if (text[at] !== ',') throw new Stop(at, 'a comma or a closing brace is missing');
        at = space(text, at + 1);
    }
}

function items(text: string, open: number, depth: number): number {
    let at = space(text, open + 1);
    if (text[at] === ']') return at + 1;
    for (;;) {
        if (text[at] === ']') throw new Stop(at, 'a comma stands before the closing bracket');
        at = value(text, at, depth + 1);
        if (text[at] === ']') return at + 1;
        if (text[at] !== ',') throw new Stop(at, 'a comma or a closing bracket is missing');
        at = space(text, at + 1);
    }
}
