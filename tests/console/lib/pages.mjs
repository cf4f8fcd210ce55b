// What is tested of every page, whatever it shows: it is drawn, follows the rules for people with disabilities in both themes, fits its
// window, and the browser has nothing to complain about.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NARROW, WIDE, ZOOMED } from './browser.mjs';

/** Tests each address with one tab of the person, which is kept from one to the next. */
export function testPages(what, addresses, person, { axe = true, also } = {}) {
    let tab;
    const at = async (path) => {
        tab ??= await person().open(path);
        tab.wrong.length = 0;
        await tab.page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
        await tab.page.setViewportSize(WIDE);
        await tab.go(path);
        return tab;
    };
    for (const name of addresses) {
        test(`${what}: ${shortened(name)}`, async () => {
            const tab = await at(name);
            assert.deepEqual(await tab.main.locator('.failed').allInnerTexts(), [], 'a part of the page says that it could not be read');
            if (axe) {
                assert.deepEqual(await tab.axe(), [], 'in light colours');
                await tab.page.emulateMedia({ colorScheme: 'dark', reducedMotion: 'reduce' });
                await tab.page.waitForFunction(() => document.documentElement.dataset.theme === 'dark');
                assert.deepEqual(await tab.axe(), [], 'in dark colours');
            }
            await also?.(tab);
            for (const [size, words] of [[NARROW, '360 px'], [ZOOMED, '200 %']]) {
                await tab.page.setViewportSize(size);
                assert.deepEqual(await tab.tooWide(), [], `scrolls sideways at ${words}`);
            }
            assert.deepEqual(tab.wrong, []);
        });
    }
}

const shortened = (address) => {
    const text = decodeURIComponent(address).replace(/(job|batch|chain)_\w{26}/, '$1_…');
    return text.length > 90 ? `${text.slice(0, 60)}…${text.slice(-24)}` : text;
};
