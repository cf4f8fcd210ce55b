// What is measured inside a page: when something can be seen, how long its tasks take, and what its memory holds.

/** Notes every task of the page that is longer than 50 ms; Chromium reports no shorter ones. */
export const noteTasks = (page) =>
    page.addInitScript(() => {
        window.tasks = [];
        new PerformanceObserver((list) => list.getEntries().forEach((entry) => window.tasks.push(Math.round(entry.duration)))).observe({ type: 'longtask', buffered: true });
    });

export const forgetTasks = (page) => page.evaluate(() => (window.tasks.length = 0));

/** The longest task since then, in milliseconds; 50 stands for all that are not longer. */
export const longestTask = (page) => page.evaluate(() => Math.max(50, ...window.tasks));

/** Milliseconds from the beginning of the navigation until a condition holds, which then gives the time. The page is asked with each frame. */
export async function readyIn(tab, path, condition, argument) {
    await tab.page.goto(`${tab.server.url}/ui${path}`, { waitUntil: 'commit' });
    const found = await tab.page.waitForFunction(condition, argument, { polling: 'raf', timeout: 120_000 });
    return found.jsonValue();
}

/** Bytes of the page's memory after everything that is not needed was thrown away. */
export async function heap(page) {
    const session = await page.context().newCDPSession(page);
    await session.send('HeapProfiler.collectGarbage');
    const { usedSize } = await session.send('Runtime.getHeapUsage');
    await session.detach();
    return usedSize;
}
