// Every dialog that a button of a page opens, and the form for signing in: with axe in both themes, in a narrow window, and with the command
// that it shows, which is checked at the end of the file.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { NARROW, Person, WIDE } from './lib/browser.mjs';
import { fill } from './lib/fill.mjs';
import { Server } from './lib/server.mjs';
import { eventually } from './lib/wait.mjs';
import { addresses } from './lib/walk.mjs';

const server = await Server.start();
const made = await fill(server);
const ana = await Person.at(server);
const tab = await ana.open('/');
after(() => server.stop());

/** In both themes and in a narrow window; what stands behind a dialog cannot be reached meanwhile. */
async function inspect(one) {
    for (const colorScheme of ['light', 'dark']) {
        await one.page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
        await one.page.waitForFunction((theme) => document.documentElement.dataset.theme === theme, colorScheme);
        assert.deepEqual(await one.axe(), [], `in ${colorScheme} colours`);
    }
    await one.page.setViewportSize(NARROW);
    assert.deepEqual(await one.tooWide(), [], 'scrolls sideways at 360 px');
    const over = await one.page.evaluate(() => {
        const body = document.querySelector('dialog .dialog-body');
        return body ? body.scrollWidth - body.clientWidth : 0;
    });
    assert.ok(over <= 0, `the dialog scrolls sideways by ${over} px`);
    await one.page.setViewportSize(WIDE);
}

/** The labels of the buttons that open a dialog, each once. */
const opening = (one) => one.main.locator('button:visible:not([disabled])').evaluateAll((buttons) => [...new Set(buttons.map((button) => button.textContent.trim()).filter((text) => text.endsWith('…')))]);

const seen = new Set();
for (const address of addresses(made)) {
    const kind = address.split('?')[0].split('/')[1];
    test(`the dialogs of ${kind || 'the overview'}: ${address.slice(0, 60)}`, async () => {
        await tab.go(address);
        for (const label of await opening(tab)) {
            if (seen.has(`${kind} ${label}`)) continue;
            seen.add(`${kind} ${label}`);
            tab.wrong.length = 0;
            await tab.button(label, tab.main).first().click();
            await tab.dialog.waitFor();
            await tab.page.waitForFunction(() => !document.querySelector('dialog [aria-busy="true"]'));
            await tab.dialog.locator('details > summary').evaluateAll((all) => all.forEach((one) => (one.parentElement.open = true)));
            await inspect(tab).catch((error) => {
                throw new Error(`${label}: ${error.message}`, { cause: error });
            });
            await tab.press('Escape');
            await eventually(`the dialog of ${label} is closed`, async () => (await tab.dialog.count()) === 0);
            assert.deepEqual(tab.wrong, [], label);
        }
    });
}

test('the palette, the help and the list of what a page can do', async () => {
    for (const open of [() => tab.press('Control+k'), () => tab.press('?'), () => tab.button('What this page can do, as commands', tab.main).click()]) {
        await tab.go(`/queues/${made.queue}`);
        await open();
        await tab.dialog.waitFor();
        await inspect(tab);
        await tab.press('Escape');
    }
});

test('the form for signing in', async () => {
    const nobody = await Person.at(server, { key: null });
    const his = await nobody.open('/');
    await inspect(his);
    await his.field('Key').fill('wl_000000000000_no');
    await his.button('Sign in').click();
    await his.page.getByRole('alert').waitFor();
    await inspect(his);
    await nobody.close();
});
