// Every page on a server that has something of everything.
import { after } from 'node:test';
import { Person } from './lib/browser.mjs';
import { fill } from './lib/fill.mjs';
import { testPages } from './lib/pages.mjs';
import { Server } from './lib/server.mjs';
import { addresses } from './lib/walk.mjs';

const server = await Server.start();
const made = await fill(server);
const ana = await Person.at(server);
after(() => server.stop());

testPages('full', addresses(made), () => ana);
