import { Person } from './lib/browser.mjs';
import { readFileSync } from 'node:fs';
const server = { url: 'http://127.0.0.1:39011', key: readFileSync('/tmp/suite/demo/admin.key','utf8').trim() };
// args: theme WxH path...
const [theme, size, ...paths] = process.argv.slice(2); const [width, height] = size.split('x').map(Number);
const p = await Person.at(server, { viewport: { width, height }, colorScheme: theme });
const tab = await p.open('/');
for (const [i, path] of paths.entries()) { await tab.go(path); await tab.page.waitForTimeout(900); await tab.page.screenshot({ path: `/tmp/suite/s${i}.png`, fullPage: height < 2000 && size.endsWith('0') }); console.log(i, path, tab.wrong.splice(0)); }
await p.close(); process.exit(0);
