// Components for uploads: a real one, and others that differ from it only in a section without meaning, and so are further versions.
import { readFileSync } from 'node:fs';
import { plugin } from './server.mjs';

/** The component of a plugin; `mark` makes another version of it. */
export function component(name, mark = '') {
    const bytes = readFileSync(plugin(name));
    if (!mark) return bytes;
    const body = Buffer.from(`\x04demo${mark}`, 'latin1');
    return Buffer.concat([bytes, Buffer.from([0, body.length]), body]);
}

export const wasm = (name, buffer) => ({ name: `${name}.wasm`, mimeType: 'application/wasm', buffer });
export const toml = (text) => ({ name: 'windlass.toml', mimeType: 'application/toml', buffer: Buffer.from(text) });
