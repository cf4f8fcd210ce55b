// Every page on a server whose every text tries to be something else than text: scripts, writing from right to left, emoji made of several,
// words without end.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Person } from './lib/browser.mjs';
import { fillHostile } from './lib/fill.mjs';
import { testPages } from './lib/pages.mjs';
import { Server } from './lib/server.mjs';
import { addresses } from './lib/walk.mjs';

const server = await Server.start();
const made = await fillHostile(server);
const ana = await Person.at(server);
after(() => server.stop());

/** Nothing of what was written became an element or ran. */
async function isText(tab) {
    const found = await tab.page.evaluate(() => ({
        ran: window.ran,
        elements: document.querySelectorAll('#app script, #app img, #app iframe, #app [onerror], #app a[href^="javascript:"], #app b > script').length,
    }));
    assert.deepEqual(found, { ran: undefined, elements: 0 });
}

testPages('hostile', [...addresses(made), `/jobs/${made.talker}?tab=log`], () => ana, { also: isText });

test('a hostile line of a log is shown as it was written', async () => {
    const tab = await ana.open(`/jobs/${made.talker}?tab=log`);
    await tab.sees(/<script>window\.ran = 1<\/script>/, tab.page.locator('.log'));
    await isText(tab);
    await tab.close();
});
