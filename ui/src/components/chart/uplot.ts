// The file that a chart loads when the first one is shown: uPlot, and how our charts look.
import uPlot from 'uplot';
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

/** `14:05`, and the seconds where labels are closer than a minute. */
function clock(seconds: number, utc: boolean, all: number[]): string {
    const text = clockTime(new Date(seconds * 1000), utc);
    return (all[1] ?? seconds) - (all[0] ?? seconds) < 60 ? text : text.slice(0, 5);
}

const property = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const FONT = '11px ui-sans-serif, system-ui, sans-serif';

export function draw(place: HTMLElement, lines: Line[], look: Look): Drawn {
    const axis = { stroke: property('--ink-3'), font: FONT, grid: { stroke: property('--line-soft'), width: 1 }, ticks: { show: false } };
    const options: uPlot.Options = {
        width: place.clientWidth,
        height: look.height,
        legend: { show: false },
        cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
        padding: [8, 8, 0, 0],
        ...(look.utc ? { tzDate: (seconds: number) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC') } : {}),
        scales: { y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } },
        series: [
            {},
            ...lines.map((line) => ({
                label: line.title,
                stroke: property(line.colour),
                width: 1.5,
                points: { show: false },
                ...(line.fill ? { fill: property(line.colour) + '18' } : {}),
            })),
        ],
        axes: [
            { ...axis, size: 28, space: 70, values: (_, splits) => splits.map((seconds) => clock(seconds, look.utc, splits)) },
            { ...axis, size: 52, space: 36, values: (_, values) => values.map((value) => look.text(value)) },
        ],
        hooks: { setCursor: [(plot) => look.at(plot.cursor.idx ?? null)] },
    };
    const data = (at: number[], all: Line[]) => [at, ...all.map((line) => line.values)] as uPlot.AlignedData;
    const plot = new uPlot(options, data([], lines.map((line) => ({ ...line, values: [] }))), place);
    return {
        set: (at, all) => plot.setData(data(at, all)),
        resize: (width) => plot.setSize({ width, height: look.height }),
        destroy: () => plot.destroy(),
    };
}
