// Takes the pictures of README.md and docs/console.md: a server of its own, the demo's load, and a browser. Run by scripts/screenshots.sh.
import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Person } from './lib/browser.mjs';
import { ROOT, Server } from './lib/server.mjs';
import { eventually } from './lib/wait.mjs';

const OUT = join(ROOT, 'docs/console');
/** As WebP, a picture of text and flat colours takes a third of a PNG. */
const QUALITY = 82;
const LONG_MS = 300_000;

mkdirSync(OUT, { recursive: true });
const server = await Server.start();
const load = spawn('python3', [join(ROOT, 'scripts/demo-load.py')], { env: { ...process.env, WINDLASS_URL: server.url, WINDLASS_API_KEY: server.key }, stdio: 'inherit' });
process.on('exit', () => load.kill());

async function shoot(tab, name) {
    const session = await tab.page.context().newCDPSession(tab.page);
    const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: QUALITY });
    await session.detach();
    const bytes = Buffer.from(data, 'base64');
    writeFileSync(join(OUT, `${name}.webp`), bytes);
    console.log(`${String(Math.ceil(bytes.length / 1024)).padStart(5)} KiB  docs/console/${name}.webp`);
}

const search = async (filter) => (await server.post('/jobs/search', { payload: 'none', ...filter })).jobs;
const first = (what, filter, fits = () => true) => eventually(what, async () => (await search(filter)).find(fits), LONG_MS);

/** Each picture: its address, when it is worth taking, what it has to show, and in which themes. */
async function pictures() {
    const flow = await first('a flow of thirty is half done', { queue: 'etl.load', state: ['blocked'] }, (job) => job.depends_on?.length !== 0);
    await eventually('its transforms run', async () => (await search({ queue: 'etl.transform', state: ['completed'] })).length >= 8, LONG_MS);
    const long = await first('a long job is a third done', { queue: 'demo.digest', state: ['active'] }, ({ progress }) => progress?.total && progress.current / progress.total > 0.2 && progress.current / progress.total < 0.7);
    await eventually('the canary has figures', async () => (await server.get('/plugins/thumbs')).canary?.ended >= 20, LONG_MS);
    return [
        { name: 'flow', path: `/flows/${flow.id}`, shows: '.graph-node', themes: ['light'] },
        { name: 'job', path: `/jobs/${long.id}?tab=payload`, shows: '[aria-label="In the sandbox"]', themes: ['light', 'dark'] },
        { name: 'dead', path: '/dead', shows: '.group', themes: ['light'] },
        { name: 'plugin', path: '/plugins/thumbs', shows: '.against', themes: ['light'] },
        { name: 'overview', path: '/', shows: '[aria-label="Failing"] li', themes: ['light', 'dark'], when: chartIsFilled },
    ];
}

/** A chart that has just begun says little. */
const chartIsFilled = () => eventually('the chart covers three minutes', async () => (await server.get('/stats/series?window=1h&step=5s')).at.length >= 36, LONG_MS);

const people = {};
for (const theme of ['light', 'dark']) people[theme] = await Person.at(server, { colorScheme: theme, viewport: { width: 1280, height: 860 } });
for (const { name, path, shows, themes, when } of await pictures()) {
    await when?.();
    for (const theme of themes) {
        const tab = await people[theme].open(path);
        await tab.sees(/^live$/);
        await tab.page.locator(`main ${shows}`).first().waitFor();
        await tab.page.waitForFunction(() => document.fonts.ready.then(() => true));
        await shoot(tab, themes.length > 1 ? `${name}-${theme}` : name);
        await tab.close();
    }
}
load.kill();
await server.stop();
process.exit(0);
