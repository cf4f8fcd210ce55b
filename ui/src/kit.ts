// What pages use. A page imports from `#kit`, `preact`, `preact/hooks` and `@preact/signals` alone: all of that is in app.js, which every
// page shares.
export * from './api/actions';
export * from './api/client';
export type * from './api/roles';
export * from './api/types';
export { addShortcuts } from './app/keys';
export * as live from './app/live';
export { watchJob } from './app/live';
export { complain, explain, notify } from './app/notices';
export { setTitle } from './app/page';
export { usePaletteEntries } from './app/palette';
export { theme, times } from './app/prefs';
export { useResource } from './app/resource';
export { go, href, pathname, query, setQuery } from './app/router';
export { may, session } from './app/session';
export * from './components/actions';
export * from './components/basics';
export { Chart } from './components/chart/chart';
export { Spark, thinned } from './components/chart/spark';
export { Dialog, show } from './components/dialog';
export * from './components/format';
export { JsonText, PlainText } from './components/json/view';
export { isJson, pretty } from './components/json/scan';
export { queueColumns, queueHref, sortedQueues, Running, ServedBy } from './components/queue-columns';
export { Table, toggle, type Column, type Sort } from './components/table';
export { readEvents } from './stream/sse';
