// A flow as a graph: the server's layout, in a window that scrolls. Panning is the window's own scrolling (arrows, wheel, finger, or
// dragging); zooming keeps what is in the middle, or under the pointer, where it is.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { addShortcuts, href, shortId } from '#kit';
import { isEnded, type Flow, type FlowEdge, type FlowNode, type Layout } from './shape';

const LEAST = 0.2;
const MOST = 2;
const STEP = 1.25;
/** More lines to one batch hide what is under them; they show for the node that is pointed at. */
const MEMBERS = 40;
/** The smallest in which names are still read; a large flow begins so, and shows a part. */
const READABLE = 0.75;
/** The share of the screen's height that the window takes at most, as in the style sheet. */
const HIGH = 0.7;
/** Moved by less, it was a click. */
const DRAG_PX = 4;

export function Graph({ flow, layout }: { flow: Flow; layout: Layout }) {
    const place = useRef<HTMLDivElement>(null);
    const [scale, setScale] = useState(0);
    /** Where the window is to scroll to after the scale has changed. */
    const hold = useRef<{ x: number; y: number; left: number; top: number } | null>(null);
    const [pointed, setPointed] = useState('');

    const fit = (least: number) => {
        const box = place.current;
        return box ? Math.min(1, Math.max(least, Math.min(box.clientWidth / layout.width, (innerHeight * HIGH) / layout.height))) : 1;
    };
    const zoom = (to: number, x?: number, y?: number) => {
        const box = place.current;
        if (!box) return;
        const next = Math.min(MOST, Math.max(LEAST, to));
        const [left, top] = [x ?? box.clientWidth / 2, y ?? box.clientHeight / 2];
        hold.current = { x: (box.scrollLeft + left) / scale, y: (box.scrollTop + top) / scale, left, top };
        setScale(next);
    };
    useLayoutEffect(() => {
        if (scale === 0) {
            const first = fit(READABLE);
            const begin = begins(flow, layout);
            // Where it begins may be far down, in the middle of all that follows.
            hold.current = { x: 0, y: begin, left: 0, top: Math.min(innerHeight * HIGH, layout.height * first) / 2 };
            setScale(first);
        } else if (hold.current && place.current) {
            place.current.scrollLeft = hold.current.x * scale - hold.current.left;
            place.current.scrollTop = hold.current.y * scale - hold.current.top;
            hold.current = null;
        }
    }, [scale]);

    const next = () => {
        const links = [...(place.current?.querySelectorAll<HTMLElement>('a.is-now') ?? [])];
        const at = links.indexOf(document.activeElement as HTMLElement);
        links[(at + 1) % Math.max(1, links.length)]?.focus();
    };
    useEffect(
        () =>
            addShortcuts([
                { keys: '+', does: 'zoom in', group: 'Graph', run: () => zoom(scale * STEP) },
                { keys: '-', does: 'zoom out', group: 'Graph', run: () => zoom(scale / STEP) },
                { keys: '0', does: 'the whole flow', group: 'Graph', run: () => zoom(fit(LEAST)) },
                { keys: 'n', does: 'to the next job that runs or failed', group: 'Graph', run: next },
            ]),
        [scale, layout],
    );
    useWheel(place, (event) => {
        const box = (place.current as HTMLElement).getBoundingClientRect();
        zoom(scale * Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
    });
    useDrag(place);
    const now = useMemo(() => flow.nodes.filter(isNow).length, [flow]);

    return (
        <>
            <div class="graph-tools">
                <button type="button" aria-label="Zoom out" onClick={() => zoom(scale / STEP)}>
                    −
                </button>
                <button type="button" aria-label="Zoom in" onClick={() => zoom(scale * STEP)}>
                    +
                </button>
                <button type="button" onClick={() => zoom(fit(LEAST))}>
                    Whole flow
                </button>
                <button type="button" onClick={() => zoom(1)}>
                    {Math.round(scale * 100)} %
                </button>
                {now > 0 && (
                    <button type="button" onClick={next}>
                        Next that runs or failed
                    </button>
                )}
                <span class="dimmer from-m">Drag to move, Ctrl and the wheel to zoom.</span>
            </div>
            {/* The window itself takes the focus, so that arrows scroll it. */}
            <div class="graph" ref={place} tabIndex={0} role="group" aria-label={`Graph of ${flow.nodes.length} nodes. Arrow keys move it, plus and minus zoom, n goes to the next job that runs or failed.`}>
                <div class="graph-size" style={{ width: `${layout.width * scale}px`, height: `${layout.height * scale}px` }}>
                    <div class="graph-stage" style={{ width: `${layout.width}px`, height: `${layout.height}px`, transform: `scale(${scale || 1})` }}>
                        <Edges flow={flow} layout={layout} pointed={pointed} />
                        {flow.nodes.map((node) => (
                            <Node key={node.id} node={node} layout={layout} point={setPointed} />
                        ))}
                    </div>
                </div>
            </div>
        </>
    );
}

/** The height of the node that the page is about, or of the first on the left. */
function begins(flow: Flow, { at, nodeHeight }: Layout): number {
    const places = [...at.values()];
    const leftmost = places.reduce((best, place) => (place.x < best.x ? place : best), places[0] ?? { x: 0, y: 0 });
    return (at.get(flow.id) ?? leftmost).y + nodeHeight / 2;
}

const isNow = (node: FlowNode) => node.state === 'active' || node.state === 'retrying' || node.state === 'dead';

function Edges({ flow, layout, pointed }: { flow: Flow; layout: Layout; pointed: string }) {
    const states = useMemo(() => new Map(flow.nodes.map((node) => [node.id, node.state])), [flow]);
    const crowded = useMemo(() => flow.edges.filter((edge) => edge.kind === 'member').length > MEMBERS, [flow]);
    /** What leads to another job is in its batch by way of that one: a line more would only cross the others. */
    const leads = useMemo(() => new Set(flow.edges.filter((edge) => edge.kind !== 'member').map((edge) => edge.from)), [flow]);
    return (
        <svg class="graph-edges" width={layout.width} height={layout.height} aria-hidden="true">
            {flow.edges.map((edge) => {
                const near = pointed !== '' && (edge.from === pointed || edge.to === pointed);
                if (!near && (edge.loose || (edge.kind === 'member' && (crowded || leads.has(edge.from))))) return null;
                const line = curve(edge, layout);
                const passed = isEnded(states.get(edge.from) ?? '');
                return line && <path key={`${edge.from} ${edge.to}`} d={line} class={`${edge.kind} ${passed ? 'passed' : ''} ${near ? 'near' : ''}`} />;
            })}
        </svg>
    );
}

function curve(edge: FlowEdge, { at, nodeWidth, nodeHeight }: Layout): string | null {
    const [from, to] = [at.get(edge.from), at.get(edge.to)];
    if (!from || !to) return null;
    const [x1, y1, x2, y2] = [from.x + nodeWidth, from.y + nodeHeight / 2, to.x, to.y + nodeHeight / 2];
    const bend = Math.max(24, Math.abs(x2 - x1) / 2);
    return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}

export const nodeHref = (node: FlowNode) => (node.kind === 'batch' ? href(`/flows/${encodeURIComponent(node.id)}`) : href(`/jobs/${encodeURIComponent(node.id)}`));

function Node({ node, layout, point }: { node: FlowNode; layout: Layout; point(id: string): void }) {
    const place = layout.at.get(node.id);
    if (!place) return null;
    const style = { left: `${place.x}px`, top: `${place.y}px`, width: `${layout.nodeWidth}px`, height: `${layout.nodeHeight}px` };
    if (node.kind === 'more') {
        return (
            <div class="graph-node more" style={style}>
                {node.label}
            </div>
        );
    }
    const state = node.kind === 'batch' ? batchState(node.state) : node.state;
    const part = node.percent > 0 && node.percent < 100 ? ` · ${Math.floor(node.percent)} %` : '';
    const reach = { onMouseEnter: () => point(node.id), onMouseLeave: () => point(''), onFocus: () => point(node.id), onBlur: () => point('') };
    return (
        <a class={`graph-node is-${state} ${node.kind} ${isNow(node) ? 'is-now' : ''}`} style={style} href={nodeHref(node)} title={`${node.label}\n${node.id}`} draggable={false} {...reach}>
            <span class="clip strong">{(node.kind === 'batch' ? node.label.split(':')[0] : node.label) || shortId(node.id)}</span>
            <span class="pill">
                {node.kind === 'batch' ? `batch, ${node.state}` : node.state}
                {part}
            </span>
            {part && <i class="graph-part" style={{ width: `${node.percent}%` }} />}
        </a>
    );
}

/** The colour of a batch is that of the state which means the same. */
const batchState = (state: string) => (state === 'finished' ? 'completed' : state === 'running' ? 'active' : 'scheduled');

/** Zooming by wheel has to forbid the page's own, which a passive listener cannot. */
function useWheel(place: { current: HTMLElement | null }, zoom: (event: WheelEvent) => void) {
    const latest = useRef(zoom);
    latest.current = zoom;
    useEffect(() => {
        const box = place.current;
        const turn = (event: WheelEvent) => {
            if (!event.ctrlKey && !event.metaKey) return;
            event.preventDefault();
            latest.current(event);
        };
        box?.addEventListener('wheel', turn, { passive: false });
        return () => box?.removeEventListener('wheel', turn);
    }, []);
}

/** Dragging with the mouse scrolls; fingers scroll by themselves. */
function useDrag(place: { current: HTMLElement | null }) {
    useEffect(() => {
        const box = place.current;
        if (!box) return;
        let from: { x: number; y: number; left: number; top: number } | null = null;
        let moved = false;
        const down = (event: PointerEvent) => {
            if (event.pointerType !== 'mouse' || event.button !== 0) return;
            from = { x: event.clientX, y: event.clientY, left: box.scrollLeft, top: box.scrollTop };
            moved = false;
        };
        const move = (event: PointerEvent) => {
            if (!from) return;
            const [x, y] = [event.clientX - from.x, event.clientY - from.y];
            if (!moved && Math.hypot(x, y) < DRAG_PX) return;
            moved = true;
            box.classList.add('dragged');
            box.scrollLeft = from.left - x;
            box.scrollTop = from.top - y;
        };
        const up = () => {
            from = null;
            box.classList.remove('dragged');
        };
        const click = (event: MouseEvent) => {
            if (!moved) return;
            moved = false;
            event.preventDefault();
            event.stopPropagation();
        };
        box.addEventListener('pointerdown', down);
        addEventListener('pointermove', move);
        addEventListener('pointerup', up);
        box.addEventListener('click', click, true);
        return () => {
            box.removeEventListener('pointerdown', down);
            removeEventListener('pointermove', move);
            removeEventListener('pointerup', up);
            box.removeEventListener('click', click, true);
        };
    }, []);
}

