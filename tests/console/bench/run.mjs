// Measures the console against the bars that it was given, and prints each figure beside its bar. Run by scripts/console-bench.sh.
import { Person } from '../lib/browser.mjs';
import { plugin, Server } from '../lib/server.mjs';
import { eventually } from '../lib/wait.mjs';
import { forgetTasks, heap, longestTask, noteTasks, readyIn } from './probe.mjs';

const QUICK = process.argv.includes('--quick');
const JOBS = QUICK ? 20_000 : 1_000_000;
const ROWS = QUICK ? 2_000 : 10_000;
const SECONDS = QUICK ? 10 : 60;
const PER_SECOND = 5000;
const LOG_LINES = QUICK ? 2_000 : 10_000;
const MIB = 1024 * 1024;

let over = 0;
function tell(what, value, unit, bar, atLeast = false) {
    const fits = atLeast ? value >= bar : value <= bar;
    if (!fits) over += 1;
    const figure = `${value < 10 ? value.toFixed(2) : Math.round(value)}${unit}`;
    console.log(`  ${what.padEnd(58)} ${figure.padStart(10)}   ${atLeast ? 'at least' : 'at most'} ${bar}${unit}${fits ? '' : '   OVER THE BAR'}`);
}

const batchOf = (queue, count, payload = (n) => ({ n })) => ({ jobs: Array.from({ length: count }, (_, n) => ({ queue, payload: payload(n) })) });

async function open(server, path) {
    const person = await Person.at(server);
    const tab = await person.open('/settings?tab=you');
    await noteTasks(tab.page);
    await tab.go(path);
    return { person, tab };
}

/** How fast pages are there when the server holds many jobs. */
async function manyJobs() {
    const server = await Server.start('--durability', 'os');
    console.log(`filling a server with ${JOBS.toLocaleString('en')} jobs`);
    for (let at = 0; at < JOBS; at += 1000) await server.post('/enqueue/batch', batchOf(`queue.${(at / 1000) % 20}`, 1000, (n) => ({ to: `user-${at + n}@example.com` })));
    const { person, tab } = await open(server, '/settings');
    const total = Math.round(JOBS / 20);
    const drawn = (least) => document.querySelectorAll('tbody tr').length >= least && document.querySelector('.tiles .v') && !document.querySelector('main [aria-busy="true"]') && performance.now();
    tell(`overview of ${JOBS.toLocaleString('en')} jobs ready`, (await readyIn(tab, '/', drawn, 10)) / 1000, ' s', 1);
    tell(`queue of ${total.toLocaleString('en')} jobs ready`, (await readyIn(tab, '/queues/queue.0', drawn, 50)) / 1000, ' s', 1.5);
    await rows(tab);
    await tenConsoles(server);
    await person.close();
    await server.stop();
}

/** However many rows a list has, few of them are in the page. */
async function rows(tab) {
    await tab.go('/queues/queue.0');
    let most = 0;
    await eventually(`${ROWS} rows were scrolled through`, async () => {
        await tab.page.evaluate(() => scrollTo(0, document.body.scrollHeight));
        const { here, all } = await tab.page.evaluate(() => ({ here: document.querySelectorAll('tbody tr').length, all: Math.round(document.querySelector('tbody').getBoundingClientRect().height / 36) }));
        most = Math.max(most, here);
        return all >= Math.min(ROWS, JOBS / 20);
    }, 300_000);
    tell(`rows in the page of a list of ${Math.min(ROWS, JOBS / 20).toLocaleString('en')}`, most, '', 200);
}

/** What enqueueing loses while ten consoles look at it. */
async function tenConsoles(server) {
    const rate = async () => {
        const began = performance.now();
        const until = began + (QUICK ? 3000 : 15_000);
        let sent = 0;
        while (performance.now() < until) {
            await Promise.all(Array.from({ length: 8 }, () => server.post('/enqueue/batch', batchOf('rated', 50))));
            sent += 400;
        }
        return sent / ((performance.now() - began) / 1000);
    };
    const alone = [await rate()];
    const people = [];
    for (let n = 0; n < 10; n += 1) people.push((await open(server, '/')).person);
    const watched = [await rate(), await rate()];
    for (const person of people) await person.close();
    alone.push(await rate());
    tell('share of the enqueue rate with ten consoles open', Math.max(...watched) / Math.max(...alone), '', 0.95, true);
}

/** A page that follows more than anybody can read. */
async function manyEvents() {
    const server = await Server.start('--durability', 'os');
    const { person, tab } = await open(server, '/events');
    await server.post('/enqueue/batch', batchOf('noise', 1000));
    await tab.sees(/Too many to read/);
    await forgetTasks(tab.page);
    const before = await heap(tab.page);
    const began = performance.now();
    let sent = 0;
    while (performance.now() < began + SECONDS * 1000) {
        const due = ((performance.now() - began) / 1000) * PER_SECOND;
        if (sent < due) {
            await server.post('/enqueue/batch', batchOf('noise', 500));
            sent += 500;
        } else {
            await new Promise((done) => setTimeout(done, 5));
        }
    }
    console.log(`events: ${Math.round(sent / SECONDS).toLocaleString('en')} per second for ${SECONDS} s`);
    tell('longest task of the page of events', await longestTask(tab.page), ' ms', 50);
    tell('memory that the page of events has gained', ((await heap(tab.page)) - before) / MIB, ' MiB', 20);
    await person.close();
    await server.stop();
}

/** Large things, one at a time. */
async function largeThings() {
    const server = await Server.start('--durability', 'os');
    const { person, tab } = await open(server, '/settings');
    const longest = async (what, path, act) => {
        await tab.go(path);
        await forgetTasks(tab.page);
        await act();
        tell(what, await longestTask(tab.page), ' ms', 200);
    };
    const text = `{"rows": [${'{"name": "a row", "value": 9007199254740993},'.repeat(340_000).slice(0, -1)}]}`.slice(0, 15.9 * MIB);
    const whole = `${text.slice(0, text.lastIndexOf('},'))}}]}`;
    const heavy = (await (await server.send('POST', '/enqueue', { raw: `{"queue": "heavy", "payload": ${whole}}` })).json()).job_id;
    await longest('longest task with a payload of 16 MiB', `/jobs/${heavy}?tab=payload`, async () => {
        const load = tab.button('Load all of it');
        await load.click();
        await eventually('all of it is loaded', async () => (await load.count()) === 0, 120_000);
    });
    await server.upload('test-rust', 'steps', plugin('test-rust'));
    const talker = await server.enqueue('steps', { mode: 'steps', steps: LOG_LINES }, { max_duration: '30m' });
    await eventually('the log is written', async () => (await server.job(talker)).state === 'completed', 600_000);
    await longest(`longest task with ${LOG_LINES.toLocaleString('en')} lines of log`, '/settings', async () => {
        await tab.go(`/jobs/${talker}?tab=log`);
        await eventually('the log is shown', async () => (await tab.page.locator('.log').count()) === 1);
        await tab.page.locator('.log').evaluate((box) => (box.scrollTop = box.scrollHeight / 2));
        await tab.page.locator('.log-line').first().waitFor();
    });
    const first = await server.enqueue('graph', {});
    const jobs = Array.from({ length: 299 }, (_, n) => ({ name: `n${n}`, queue: 'graph', payload: { n }, depends_on: [n < 15 ? first : `n${Math.floor(n / 15) - 1}`] }));
    await server.post('/enqueue/batch', { jobs });
    await longest('longest task with a graph of 300 nodes', '/settings', async () => {
        await tab.go(`/flows/${first}`);
        await tab.page.locator('.graph-node').nth(100).waitFor();
        for (const key of ['+', '-', '0']) await tab.press(key);
    });
    await person.close();
    await server.stop();
}

/** How soon a person reads that the server is away, and that it is back. */
async function reconnecting() {
    const server = await Server.start();
    const { person, tab } = await open(server, '/queues');
    await tab.sees(/^live$/);
    const lost = tab.page.getByText(/Connection lost/).waitFor();
    await server.kill();
    let began = performance.now();
    await lost;
    tell('from the death of the server to the banner', (performance.now() - began) / 1000, ' s', 2);
    const back = tab.page.getByText('Back: connected again.').waitFor();
    await server.again();
    began = performance.now();
    await back;
    tell('from its return to being connected again', (performance.now() - began) / 1000, ' s', 3);
    await person.close();
    await server.stop();
}

for (const part of [reconnecting, largeThings, manyEvents, manyJobs]) {
    try {
        await part();
    } catch (error) {
        over += 1;
        console.log(`  could not be measured: ${part.name}: ${error.message.split('\n')[0]}`);
    }
}
if (over > 0) console.log(`${over} figures are over their bar, on this machine`);
process.exit(0);
