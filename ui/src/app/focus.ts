// Where the focus goes: after a page was gone to, to its heading, so that a screen reader reads it and Tab continues there.
import { useLayoutEffect, useRef } from 'preact/hooks';
import { visit } from './router';

/** The visit whose heading has had the focus. The first is the browser's own. */
let seen = 0;

/** For the heading of a page. Some pages draw theirs only when their data is there, and then it is late. */
export function useArrival() {
    const heading = useRef<HTMLHeadingElement>(null);
    useLayoutEffect(() => {
        const here = document.activeElement;
        // Whoever has opened the palette or begun to type meanwhile stays there.
        if (visit.peek() === 0 || document.querySelector('dialog[open]')) return;
        if (seen === visit.peek() && here && here !== document.body) return;
        seen = visit.peek();
        heading.current?.focus({ preventScroll: true });
    }, []);
    return heading;
}
