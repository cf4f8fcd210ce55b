// Builds the console into ui/dist, under stable names.
//
// usage: node ui/build.mjs [--watch] [--out FOLDER]
//
// `app.js` holds what every page needs: Preact, the kit and the shell. Each page is a file of its own that is loaded when it is opened,
// and imports all of that from `./app.js`: esbuild's own splitting would name the shared parts by their contents, and every change would
// rename files.
import { readdirSync, rmSync, mkdirSync, copyFileSync, existsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as esbuild from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const watch = process.argv.includes('--watch');
const out = process.argv.includes('--out') ? resolve(process.argv[process.argv.indexOf('--out') + 1]) : join(here, 'dist');

const shared = {
    bundle: true,
    minify: true,
    format: 'esm',
    target: ['es2022'],
    charset: 'utf8',
    legalComments: 'none',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    logLevel: 'warning',
    absWorkingDir: here,
};

/** What pages take from the application instead of bringing it along. */
const fromApp = {
    name: 'from-app',
    setup(build) {
        build.onResolve({ filter: /^(#kit|preact|preact\/hooks|preact\/jsx-runtime|@preact\/signals)$/ }, () => ({ path: './app.js', external: true }));
    },
};

/** A page is a file of src/pages, or a folder with an index.tsx. */
function pages() {
    const folder = join(here, 'src/pages');
    const found = {};
    for (const entry of readdirSync(folder).sort()) {
        const path = join(folder, entry);
        if (statSync(path).isDirectory()) {
            if (existsSync(join(path, 'index.tsx'))) found[entry] = join(path, 'index.tsx');
        } else if (entry.endsWith('.tsx')) {
            found[entry.slice(0, -4)] = path;
        }
    }
    return found;
}

// A route whose page has no file is not offered.
const define = { PAGES: JSON.stringify(Object.keys(pages())) };

const builds = [
    { ...shared, entryPoints: { app: 'src/app.tsx' }, alias: { '#kit': './src/kit.ts' }, define, outdir: out },
    { ...shared, entryPoints: pages(), plugins: [fromApp], outdir: out },
    { ...shared, entryPoints: { chart: 'src/components/chart/draw.ts' }, outdir: out },
    { ...shared, entryPoints: { stream: 'src/stream/worker.ts' }, format: 'iife', outdir: out },
    { ...shared, entryPoints: { style: 'src/style/index.css' }, outdir: out },
];

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
for (const name of ['index.html', 'icon.svg']) copyFileSync(join(here, 'src', name), join(out, name));
for (const options of builds) {
    if (watch) await (await esbuild.context(options)).watch();
    else await esbuild.build(options);
}
if (watch) console.log(`building into ${out} at every change; serve it with: windlass serve --ui-dir ${out}`);
