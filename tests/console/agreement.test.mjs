// The console against the API and the command line, as its sources are written: each route that it names exists, with the method that it
// uses, and each command and flag that it tells people to type exists. What the other tests ask for and show is checked as it happens: see
// lib/browser.mjs.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, test } from 'node:test';
import { couldLead, described, elements, enclosed, literal, sources } from './lib/agreement.mjs';
import { Server, SHELL } from './lib/server.mjs';

const server = await Server.start();
after(() => server.stop());

/** Each place that names a path: its segments, and the methods that are used there, where the source says so beside it. */
function* paths() {
    // Those of the console's own pages look the same.
    for (const { file, text } of sources().filter(({ file }) => file !== 'app/routes.ts')) {
        const lineOf = (at) => `${file}:${text.slice(0, at).split('\n').length}`;
        for (const { index } of text.matchAll(/\bpath\(\[/g)) {
            const list = enclosed(text, index + 'path('.length);
            const segments = elements(list).map(literal);
            yield { where: lineOf(index), segments, methods: methodsAt(text, index), written: list };
        }
        // Written out, up to the query.
        for (const found of text.matchAll(/(?:\b(?:get|post)(?:<[^()]*>)?\(|\b(?:call|send)(?:<[^()]*>)?\('[A-Z]+', |\bpath: (?:[\w.]+ \? )?|^[^'\n]*\? '\/\w+' : )'(\/[\w/-]+)(?:\?[^']*)?'/gm)) {
            yield { where: lineOf(found.index), segments: found[1].slice(1).split('/'), methods: methodsAt(text, found.index + found[0].length - 1), written: found[1] };
        }
    }
}

/** The method: that of the function that is called with the path, or of the action that it is part of. */
function methodsAt(text, at) {
    const before = text.slice(Math.max(0, at - 300), at);
    const calls = [...before.matchAll(/\b(get|post|call|send)(?:<[^;]*?>)?\((?:'([A-Z]+)')?/g)].at(-1);
    const between = calls ? before.slice(calls.index + calls[0].length) : '';
    if (calls && !/[;{}]/.test(between.replace(/\$\{[^}]*\}/g, '').replace(/\{[^{}]*\}/g, ''))) return [calls[2] ?? calls[1].toUpperCase()];
    const action = /method: ([^\n]*?),?\s*(?:path: [^\n]*)?$/.exec(before.slice(before.lastIndexOf('method: ')));
    return action ? [...action[1].matchAll(/'([A-Z]+)'/g)].map(([, method]) => method) : [];
}

test('every route that the console names is in the description of the API, with the method that it uses', async () => {
    const api = await described(server.url);
    const wrong = [];
    let named = 0;
    let withMethod = 0;
    for (const { where, segments, methods, written } of paths()) {
        named += 1;
        const found = couldLead(api, segments);
        if (found.length === 0) wrong.push(`${where}: there is no route ${written}`);
        if (methods.length > 0) withMethod += 1;
        // Of several, each belongs to one of the paths that the source chooses between.
        const fits = methods.length === 0 || found.some((one) => methods.some((method) => one.methods.includes(method)));
        if (found.length > 0 && !fits) wrong.push(`${where}: ${written} does not take ${methods.join(' or ')}`);
    }
    assert.deepEqual(wrong, []);
    assert.ok(named > 90 && withMethod > 70, `only ${named} routes were found, ${withMethod} of them with a method`);
});

/** The flags of each command, by its words, with a space for a hyphen: what the shell's completion knows. */
function flags() {
    const text = execFileSync('windlass', ['completion', 'bash'], { env: SHELL, encoding: 'utf8' });
    const found = new Map();
    for (const [, name, options] of text.matchAll(/^\s+windlass__subcmd__(\w+)\)\s+opts="([^"]*)"/gm)) found.set(name.replaceAll('__subcmd__', ' '), options.split(' '));
    return found;
}

test('every command that the console shows exists, and has the flags that it is shown with', () => {
    const known = flags();
    assert.ok(known.size > 80, `only ${known.size} commands are known`);
    const all = new Set([...known.values()].flat());
    const wrong = [];
    let shown = 0;
    for (const { file, text } of sources()) {
        for (const { index } of text.matchAll(/command: (?:\w+ \? )?\[/g)) {
            const list = enclosed(text, text.indexOf('[', index));
            // Of two words to choose from, either stands for both.
            const words = elements(list).map((one) => literal(one) ?? literal(/\? ('\w+') : '/.exec(one)?.[1] ?? ''));
            shown += 1;
            // Up to the first word that only a running page knows; a group of commands stands for all of them.
            let name = '';
            for (const word of words) {
                const longer = `${name} ${word?.replaceAll('-', ' ')}`.trim();
                if (word === undefined || ![...known.keys()].some((one) => one === longer || one.startsWith(`${longer} `))) break;
                name = longer;
            }
            const options = [...known].filter(([one]) => one === name || one.startsWith(`${name} `)).flatMap(([, options]) => options);
            if (!name) wrong.push(`${file}: there is no command ${list}`);
            for (const [, flag] of list.matchAll(/'(--[a-z-]+)'/g)) if (!options.includes(flag)) wrong.push(`${file}: windlass ${name} has no flag ${flag}`);
        }
        // Those that are put together elsewhere. What names a colour looks the same, and so does a flag of curl.
        if (/chart|api\/actions/.test(file)) continue;
        for (const [, before, flag] of text.matchAll(/(\w+:? ?)?'(--[a-z-]{2,})'/g)) if (before !== 'colour: ' && !all.has(flag)) wrong.push(`${file}: no command has a flag ${flag}`);
    }
    assert.deepEqual(wrong, []);
    assert.ok(shown > 30, `only ${shown} commands were found`);
});
