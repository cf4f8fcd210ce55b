// Every page on a server on which nothing has happened yet.
import { after } from 'node:test';
import { Person } from './lib/browser.mjs';
import { testPages } from './lib/pages.mjs';
import { Server } from './lib/server.mjs';
import { addresses } from './lib/walk.mjs';

const server = await Server.start();
const ana = await Person.at(server);
after(() => server.stop());

testPages('empty', addresses(), () => ana);
