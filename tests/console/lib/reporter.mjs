// What the tests say: each one that failed and why, and at the end how many passed.
import { basename } from 'node:path';

export default async function* report(events) {
    const began = Date.now();
    let passed = 0;
    const failed = [];
    for await (const { type, data } of events) {
        if (type === 'test:pass') {
            passed += 1;
        } else if (type === 'test:fail') {
            failed.push(data.name);
            const { error } = data.details;
            const cause = error.cause ?? error;
            yield `--- ${basename(data.file ?? '')}: ${data.name}\n${cause.stack ?? cause.message ?? cause}\n${cause.cause?.message ? `${cause.cause.message}\n` : ''}\n`;
        } else if (type === 'test:stderr') {
            yield data.message;
        }
    }
    const seconds = Math.round((Date.now() - began) / 1000);
    if (failed.length > 0) yield `failed in ${seconds} s, ${passed} passed:\n${failed.map((name) => `  ${name}\n`).join('')}`;
    else yield `==> ${passed} tests of the console passed in ${seconds} s\n`;
}
