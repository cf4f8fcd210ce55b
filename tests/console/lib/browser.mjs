// Chromium without a window, and tabs that notice everything a browser complains about. What the tabs of a file ask of the server and the
// commands that they show are compared at its end with what there is.
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';
import { chromium } from 'playwright-core';
import { described, isDescribed, notUnderstood } from './agreement.mjs';
import { DEADLINE_MS, eventually } from './wait.mjs';

const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Chromium's path, as a shell would find it. */
function onPath() {
    for (const name of ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome']) {
        for (const folder of (process.env.PATH ?? '').split(delimiter)) if (existsSync(join(folder, name))) return join(folder, name);
    }
    throw new Error('there is no Chromium on the PATH: apt-get install chromium');
}

let running;
/** The browser that the tests of a file share; it is closed after them. */
export function browser() {
    running ??= chromium.launch({ executablePath: onPath(), args: FLAGS });
    return running;
}
// The scripts that measure and take pictures use it, too, and are no tests.
if (process.env.NODE_TEST_CONTEXT) {
    const { after } = await import('node:test');
    after(async () => (await running)?.close());
    after(agrees);
}

/** What tabs have asked servers for, as `METHOD /path`, and the commands that they have shown. */
const asked = new Set();
const shown = new Map();
let api;

/** Ids differ from one run to the next, and their commands do not. */
const withoutIds = (line) => line.replace(/\b[a-z]+_[0-9A-HJKMNP-TV-Z]{26}\b/g, 'ID');

/** Each request was to a route that the API describes, and each command is one that the program understands. */
async function agrees() {
    const known = await api;
    if (!known) return;
    const wrong = [...asked].filter((one) => !isDescribed(known, ...one.split(' '))).map((one) => `${one} is not in the description of the API`);
    wrong.push(...(await notUnderstood([...shown.values()])));
    if (wrong.length > 0) throw new Error(`the console does not agree with the server:\n${wrong.join('\n')}`);
}

export const WIDE = { width: 1280, height: 800 };
/** A phone; and a window of 1280 px whose text is twice as large. */
export const NARROW = { width: 360, height: 740 };
export const ZOOMED = { width: 640, height: 400 };

/** A person at a browser: cookies and storage of their own. */
export class Person {
    /** Somebody who is signed in with a key; without one, nobody is. */
    static async at(server, { key = server.key, ...options } = {}) {
        const person = new Person();
        person.server = server;
        api ??= described(server.url);
        person.context = await (await browser()).newContext({ viewport: WIDE, baseURL: server.url, locale: 'en-GB', timezoneId: 'Europe/Berlin', reducedMotion: 'reduce', ...options });
        person.context.setDefaultTimeout(DEADLINE_MS);
        if (key) {
            const answer = await person.context.request.post('/api/v1/auth/session', { data: { key }, headers: { 'x-windlass-console': '1', origin: server.url } });
            if (!answer.ok()) throw new Error(`signing in was answered with ${answer.status()}: ${await answer.text()}`);
        }
        return person;
    }

    /** Opens a tab at an address of the console. */
    async open(path = '/') {
        const tab = new Tab(await this.context.newPage(), this.server);
        await tab.watch();
        await tab.go(path);
        return tab;
    }

    close = () => this.context.close();
}

export class Tab {
    constructor(page, server) {
        this.page = page;
        this.server = server;
        /** What went wrong, as the browser said it. */
        this.wrong = [];
    }

    async watch() {
        const { page, server } = this;
        page.on('console', (message) => {
            if (message.type() === 'error' || message.type() === 'warning') this.wrong.push(`${message.type()} in the console: ${message.text()} ${message.location().url}`);
        });
        page.on('pageerror', (error) => this.wrong.push(`error: ${error.message}`));
        page.on('dialog', (dialog) => {
            this.wrong.push(`a script showed a dialog: ${dialog.message()}`);
            void dialog.dismiss();
        });
        page.on('request', (request) => {
            const { origin, pathname, protocol } = new URL(request.url());
            if (origin !== server.url && !['data:', 'blob:'].includes(protocol)) this.wrong.push(`a request to somebody else: ${request.url()}`);
            if (pathname.startsWith('/api/v1/')) asked.add(`${request.method()} ${pathname}`);
        });
        // The page's own event tells of a rule that was broken, also where the console does not.
        await page.exposeFunction('tellBroken', (text) => this.wrong.push(`against the content security policy: ${text}`));
        await page.addInitScript(() => addEventListener('securitypolicyviolation', (event) => window.tellBroken(`${event.violatedDirective} ${event.blockedURI}`)));
        await page.exposeFunction('tellCommand', (line) => shown.set(withoutIds(line), line));
        await page.addInitScript(() => {
            const told = new Set();
            const look = () => {
                for (const one of document.querySelectorAll('.command code, .same button')) {
                    const line = one.title || one.textContent;
                    if (!line.startsWith('windlass ') || told.has(line)) continue;
                    told.add(line);
                    window.tellCommand(line);
                }
            };
            new MutationObserver(look).observe(document, { subtree: true, childList: true, characterData: true });
        });
    }

    /** Loads an address of the console, and waits until its page is drawn. */
    async go(path) {
        await this.page.goto(`${this.server.url}/ui${path}`);
        await this.ready();
    }

    /** The heading of a page or the form for signing in is there, and nothing is being loaded. */
    ready() {
        const drawn = () => document.querySelector('.shell main h1, .sign-in form') && !document.querySelector('main [aria-busy="true"]');
        return this.page.waitForFunction(drawn, undefined, { timeout: DEADLINE_MS }).catch(async (error) => {
            throw new Error(`${this.page.url()} is not drawn: ${(await this.page.locator('body').innerText()).slice(0, 600)}`, { cause: error });
        });
    }

    get main() {
        return this.page.locator('main');
    }

    button = (name, within = this.page) => within.getByRole('button', { name, exact: typeof name === 'string' });
    link = (name, within = this.page) => within.getByRole('link', { name, exact: typeof name === 'string' });
    field = (name, within = this.page) => within.getByLabel(name, { exact: typeof name === 'string' });
    /** A list to choose from: its label has its options as text, too, so it is found by its role. */
    choice = (name, within = this.page) => within.getByRole('combobox', { name });
    get dialog() {
        return this.page.getByRole('dialog');
    }

    /** Waits until a text can be seen. */
    sees = (text, within = this.page) => within.getByText(text).filter({ visible: true }).first().waitFor({ timeout: DEADLINE_MS });

    /** Waits until nothing with this text can be seen. */
    misses = (text, within = this.page) => eventually(`“${text}” is gone`, async () => (await within.getByText(text).filter({ visible: true }).count()) === 0);

    /** The path and the query of the address, without `/ui`. */
    get path() {
        const { pathname, search } = new URL(this.page.url());
        return pathname.replace(/^\/ui/, '') + search;
    }

    press = async (...keys) => {
        for (const key of keys) await this.page.keyboard.press(key);
    };

    /** Moves the focus with Tab until it is on what has this name. */
    async tabTo(name) {
        const named = () =>
            this.page.evaluate(() => {
                const here = document.activeElement;
                const label = here?.labels?.[0];
                const text = label ? [...label.childNodes].filter((part) => part !== here).map((part) => part.textContent).join('') : here?.textContent;
                return here?.getAttribute('aria-label') ?? text?.trim() ?? '';
            });
        for (let steps = 0; steps < 80; steps += 1) {
            await this.press('Tab');
            const found = await named();
            if (name instanceof RegExp ? name.test(found) : found === name) return;
        }
        throw new Error(`Tab does not reach ${name}`);
    }

    /** Violations of WCAG 2.2 AA, one line each. */
    async axe() {
        if (!(await this.page.evaluate(() => typeof window.axe === 'object'))) await this.page.evaluate(AXE);
        return this.page.evaluate(async () => {
            const only = { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22a', 'wcag22aa'] };
            // The style sheet is read from the page itself; axe would ask for it again.
            const found = await window.axe.run(document, { runOnly: only, resultTypes: ['violations'], preload: false });
            return found.violations.flatMap((rule) => rule.nodes.slice(0, 4).map((node) => `${rule.id}: ${node.target.join(' ')}: ${node.failureSummary?.split('\n')[1]?.trim() ?? rule.help}`));
        });
    }

    /** The elements that make the page wider than its window; none if it is not. */
    async tooWide() {
        return this.page.evaluate(() => {
            const wide = document.scrollingElement.clientWidth;
            if (document.scrollingElement.scrollWidth <= wide) return [];
            const found = [...document.querySelectorAll('#app *')].filter((one) => one.getBoundingClientRect().right > wide + 0.5);
            return [`${document.scrollingElement.scrollWidth} px in a window of ${wide}`, ...found.slice(0, 5).map((one) => `${one.tagName.toLowerCase()}.${[...one.classList].join('.')}: ${one.textContent.slice(0, 40)}`)];
        });
    }

    close = () => this.page.close();
}
