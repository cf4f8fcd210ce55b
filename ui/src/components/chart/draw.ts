// The file that a chart loads when the first one is shown: lines over time on a canvas, with axes, a grid, and a cursor that finds the
// nearest step. What it shows is also in words, beside it.
import { clockTime } from '../time';

export interface Line {
    title: string;
    /** The name of a custom property: `--active`. */
    colour: string;
    values: (number | null)[];
    fill?: boolean;
}

export interface Drawn {
    set(at: number[], lines: Line[]): void;
    resize(width: number): void;
    destroy(): void;
}

interface Look {
    height: number;
    /** A value on the axis and in the legend. */
    text(value: number): string;
    utc: boolean;
    /** Told where the pointer is: the index of a step, or null. */
    at(index: number | null): void;
}

const FONT = '11px ui-sans-serif, system-ui, sans-serif';
const [LEFT, RIGHT, TOP, BOTTOM] = [52, 8, 8, 24];
/** The least distances between two labels. */
const [LABEL_X, LABEL_Y] = [70, 34];
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];

/** The least of 1, 2, 5, 10, 20, … that is at least this. */
function round(least: number): number {
    const scale = 10 ** Math.floor(Math.log10(least));
    return ([1, 2, 5, 10].find((n) => n * scale >= least) ?? 10) * scale;
}

/** `14:05`, and the seconds where labels are closer than a minute. */
const clock = (seconds: number, utc: boolean, step: number) => clockTime(new Date(seconds * 1000), utc).slice(0, step < 60 ? 8 : 5);
const property = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function draw(place: HTMLElement, look: Look): Drawn {
    const canvas = document.createElement('canvas');
    canvas.className = 'chart-canvas';
    place.append(canvas);
    const pen = canvas.getContext('2d') as CanvasRenderingContext2D;
    const [ink, soft] = [property('--ink-3'), property('--line-soft')];
    let width = place.clientWidth;
    let at: number[] = [];
    let lines: Line[] = [];
    let pointed: number | null = null;
    let frame = 0;

    const x = (index: number) => LEFT + ((width - LEFT - RIGHT) * index) / Math.max(1, at.length - 1);
    const bottom = look.height - BOTTOM;

    function paint() {
        frame = 0;
        const ratio = devicePixelRatio || 1;
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(look.height * ratio);
        canvas.style.width = `${width}px`;
        canvas.style.height = `${look.height}px`;
        pen.setTransform(ratio, 0, 0, ratio, 0, 0);
        pen.clearRect(0, 0, width, look.height);
        pen.font = FONT;
        pen.fillStyle = ink;
        pen.lineWidth = 1;
        const most = Math.max(0, ...lines.map((line) => line.values.reduce<number>((top, value) => Math.max(top, value ?? 0), 0))) * 1.1 || 1;
        const y = (value: number) => bottom - ((bottom - TOP) * value) / most;

        pen.textAlign = 'right';
        pen.textBaseline = 'middle';
        const stepY = round((most * LABEL_Y) / (bottom - TOP));
        for (let value = 0; value <= most; value += stepY) {
            rule(LEFT, y(value), width - RIGHT, y(value));
            pen.fillText(value === 0 ? '0' : look.text(value), LEFT - 8, y(value));
        }
        const [first, last] = [at[0] ?? 0, at.at(-1) ?? 0];
        const wanted = ((last - first) * LABEL_X) / Math.max(1, width - LEFT - RIGHT);
        const stepX = STEPS_S.find((step) => step >= wanted) ?? 86_400;
        pen.textAlign = 'center';
        for (let second = Math.ceil(first / stepX) * stepX; last > first && second <= last; second += stepX) {
            const here = x(((second - first) / (last - first)) * (at.length - 1));
            rule(here, TOP, here, bottom);
            // A label that would stand half outside is left out.
            if (here > LEFT + 8 && here < width - 20) pen.fillText(clock(second, look.utc, stepX), here, bottom + 14);
        }
        lines.forEach((line) => stroke(line, y));
        if (pointed === null) return;
        pen.setLineDash([3, 3]);
        pen.strokeStyle = ink;
        path(x(pointed), TOP, x(pointed), bottom);
        pen.setLineDash([]);
        for (const line of lines) {
            const value = line.values[pointed];
            if (value === null || value === undefined) continue;
            pen.fillStyle = property(line.colour);
            pen.beginPath();
            pen.arc(x(pointed), y(value), 3, 0, 7);
            pen.fill();
        }
    }

    function path(fromX: number, fromY: number, toX: number, toY: number) {
        pen.beginPath();
        pen.moveTo(fromX, fromY);
        pen.lineTo(toX, toY);
        pen.stroke();
    }

    function rule(fromX: number, fromY: number, toX: number, toY: number) {
        pen.strokeStyle = soft;
        // On half pixels, so that a line of one pixel is one.
        path(Math.round(fromX) + 0.5, Math.round(fromY) + 0.5, Math.round(toX) + 0.5, Math.round(toY) + 0.5);
    }

    /** A line with its gaps, and the area below each part of it. */
    function stroke(line: Line, y: (value: number) => number) {
        const colour = property(line.colour);
        pen.strokeStyle = colour;
        pen.lineWidth = 1.5;
        pen.lineJoin = 'round';
        let start = -1;
        for (let index = 0; index <= line.values.length; index++) {
            const value = line.values[index];
            const here = value !== null && value !== undefined;
            if (here && start < 0) {
                start = index;
                pen.beginPath();
                pen.moveTo(x(index), y(value));
            } else if (here) pen.lineTo(x(index), y(value));
            else if (start >= 0) {
                pen.stroke();
                if (line.fill) {
                    pen.lineTo(x(index - 1), bottom);
                    pen.lineTo(x(start), bottom);
                    pen.fillStyle = colour + '18';
                    pen.fill();
                }
                start = -1;
            }
        }
    }

    const later = () => {
        frame ||= requestAnimationFrame(paint);
    };
    const point = (event: PointerEvent) => {
        const part = (event.clientX - canvas.getBoundingClientRect().left - LEFT) / Math.max(1, width - LEFT - RIGHT);
        pointed = at.length && part > -0.05 && part < 1.05 ? Math.max(0, Math.min(at.length - 1, Math.round(part * (at.length - 1)))) : null;
        look.at(pointed);
        later();
    };
    const leave = () => {
        pointed = null;
        look.at(null);
        later();
    };
    canvas.addEventListener('pointermove', point);
    canvas.addEventListener('pointerleave', leave);
    later();
    return {
        set(times, all) {
            [at, lines] = [times, all];
            if (pointed !== null && pointed >= at.length) pointed = null;
            later();
        },
        resize(to) {
            width = to;
            later();
        },
        destroy() {
            cancelAnimationFrame(frame);
            canvas.remove();
        },
    };
}
