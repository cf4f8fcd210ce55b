// What the console asks of the server, and what it tells people to type, against what there is: the description of the API and the commands.
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT, SHELL } from './server.mjs';

const run = promisify(execFile);
const SOURCES = join(ROOT, 'ui/src');

/** The files of the console, as text. */
export function sources() {
    const found = [];
    const walk = (folder) => {
        for (const name of readdirSync(folder).sort()) {
            const path = join(folder, name);
            if (statSync(path).isDirectory()) walk(path);
            else if (/\.tsx?$/.test(name)) found.push({ file: path.slice(SOURCES.length + 1), text: readFileSync(path, 'utf8') });
        }
    };
    walk(SOURCES);
    return found;
}

/** The text from an opening bracket to the one that closes it, without both. */
export function enclosed(text, open) {
    let depth = 0;
    let quote = '';
    for (let at = open; at < text.length; at += 1) {
        const c = text[at];
        if (quote) {
            if (c === '\\') at += 1;
            else if (c === quote) quote = '';
        } else if (`'"\``.includes(c)) quote = c;
        else if ('([{'.includes(c)) depth += 1;
        else if (')]}'.includes(c)) {
            depth -= 1;
            if (depth === 0) return text.slice(open + 1, at);
        }
    }
    throw new Error(`no bracket closes the one at ${text.slice(open, open + 60)}`);
}

/** The elements of a list, as they are written. */
export function elements(list) {
    const found = [''];
    let depth = 0;
    let quote = '';
    for (const c of list) {
        if (quote) quote = c === quote ? '' : quote;
        else if (`'"\``.includes(c)) quote = c;
        else if ('([{'.includes(c)) depth += 1;
        else if (')]}'.includes(c)) depth -= 1;
        else if (c === ',' && depth === 0) {
            found.push('');
            continue;
        }
        found[found.length - 1] += c;
    }
    return found.map((one) => one.trim()).filter(Boolean);
}

/** The text of a literal; undefined if it is anything else. */
export const literal = (written) => /^'([^']*)'$/.exec(written)?.[1];

/** The API as it describes itself: methods by the segments of their path. */
export async function described(url) {
    const { paths } = await (await fetch(`${url}/openapi.json`)).json();
    return Object.entries(paths).map(([path, methods]) => ({ segments: path.replace('/api/v1', '').split('/').slice(1), path, methods: Object.keys(methods).map((one) => one.toUpperCase()) }));
}

/** Whether a path leads there. `undefined` stands for something that only a running page knows. */
const leadsTo = (segments, { segments: there }) => there.length === segments.length && there.every((part, at) => segments[at] === undefined || part === segments[at] || (part.startsWith('{') && segments[at] !== ''));

/** A request that was made: literal segments before parameters, as the server's router chooses. */
export function isDescribed(api, method, pathname) {
    const segments = pathname.replace(/^\/api\/v1/, '').split('/').slice(1).map(decodeURIComponent);
    const fits = api.filter((one) => leadsTo(segments, one)).sort((a, b) => a.path.split('{').length - b.path.split('{').length);
    return fits[0]?.methods.includes(method) ?? false;
}

/** Where a path that is written in a source could lead. A literal must be one there, too. */
export const couldLead = (api, segments) => api.filter((one) => leadsTo(segments, one) && segments.every((part, at) => part === undefined || one.segments[at] === part));

/** The commands of a line with their words, as a shell reads them; each ends at an operator. */
export function words(line) {
    const commands = [[]];
    let word;
    let quote = '';
    for (let at = 0; at < line.length; at += 1) {
        const c = line[at];
        if (quote) {
            if (c === quote) quote = '';
            else word += c;
        } else if (c === "'" || c === '"') {
            quote = c;
            word ??= '';
        } else if (c === '\\') {
            at += 1;
            word = (word ?? '') + line[at];
        } else if (' \n;&|<>'.includes(c)) {
            if (word !== undefined) commands.at(-1).push(word);
            word = undefined;
            if (c !== ' ') commands.push([]);
        } else word = (word ?? '') + c;
    }
    if (word !== undefined) commands.at(-1).push(word);
    return commands.filter((command) => command.length > 0);
}

/** The lines among these that the command does not understand, with what it says. Nothing is done: each command only asks for its help. */
export async function notUnderstood(lines) {
    const wrong = [];
    for (const line of lines) {
        for (const [name, ...rest] of words(line)) {
            // No argument of a program has this character.
            if (name !== 'windlass' || rest.some((word) => word.includes('\0'))) continue;
            await run('windlass', [...rest, '--help'], { env: SHELL, cwd: tmpdir() }).catch((error) => wrong.push(`${line}\n${(error.stderr ?? error.message).trim()}`));
        }
    }
    return wrong;
}
