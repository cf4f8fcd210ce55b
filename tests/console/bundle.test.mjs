// How much a browser loads, and that nothing is loaded from anywhere else.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { Person } from './lib/browser.mjs';
import { ROOT, Server } from './lib/server.mjs';

const server = await Server.start();
after(() => server.stop());
const DIST = process.env.WINDLASS_UI_DIR ?? join(ROOT, 'ui/dist');
const KB = 1024;

test('all files together are at most 150 KB, compressed', () => {
    const sizes = readdirSync(DIST).map((name) => [name, gzipSync(readFileSync(join(DIST, name)), { level: 9 }).length]);
    const all = sizes.reduce((sum, [, size]) => sum + size, 0);
    assert.ok(all <= 150 * KB, `${(all / KB).toFixed(1)} KB: ${sizes.map(([name, size]) => `${name} ${size}`).join(', ')}`);
});

test('the first page loads at most 60 KB of files, compressed', async () => {
    // With a chart, which is a file of its own.
    await server.enqueue('mail', {});
    const ana = await Person.at(server);
    const tab = await ana.open('/');
    await tab.page.locator('main canvas').first().waitFor();
    const loaded = await tab.page.evaluate(() => {
        // Later, the console loads the pages that are opened first, for the next click: those are no part of this one.
        const ahead = performance.getEntriesByName('windlass-ahead')[0]?.startTime ?? Infinity;
        const all = performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'));
        const later = /\/(queues|queue|job)\.js$/;
        return all.filter((one) => one.startTime < ahead || !later.test(one.name)).map((one) => [new URL(one.name).pathname, one.encodedBodySize]);
    });
    const files = loaded.filter(([path]) => path.startsWith('/ui/'));
    assert.ok(files.some(([path]) => path === '/ui/app.js') && files.some(([path]) => path === '/ui/overview.js'), JSON.stringify(files));
    // The worker of the stream loads its file by itself.
    const worker = gzipSync(readFileSync(join(DIST, 'stream.js')), { level: 9 }).length;
    // From a folder, the server sends files as they are.
    const size = process.env.WINDLASS_UI_DIR ? (path) => gzipSync(readFileSync(join(DIST, path === '/ui/' ? 'index.html' : path.slice(4))), { level: 9 }).length : (_, sent) => sent;
    const all = files.reduce((sum, [path, sent]) => sum + size(path, sent), worker);
    assert.ok(all <= 60 * KB, `${(all / KB).toFixed(1)} KB: ${JSON.stringify(files)}`);
    assert.deepEqual(tab.wrong, []);
    await ana.close();
});

test('a page is loaded when it is first opened, and not again', async () => {
    const ana = await Person.at(server);
    const tab = await ana.open('/held');
    const asked = [];
    tab.page.on('request', (request) => asked.push(new URL(request.url()).pathname));
    await tab.link('Flows', tab.page.locator('nav#pages')).click();
    await tab.page.getByRole('heading', { name: 'Flows' }).waitFor();
    assert.ok(!asked.includes('/ui/app.js'), 'the page was not loaded anew');
    await tab.link('Held', tab.page.locator('nav#pages').getByRole('listitem').filter({ hasText: 'Held' })).click();
    await tab.page.getByRole('heading', { name: 'Held' }).waitFor();
    assert.equal(asked.filter((path) => path === '/ui/flows.js').length, 1);
    await ana.close();
});
