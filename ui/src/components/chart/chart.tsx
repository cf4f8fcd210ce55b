// A chart over time with a legend that reads values, and a table of the same for who cannot see it.
import { useEffect, useRef, useState } from 'preact/hooks';
import { dark, times } from '../../app/prefs';
import { clockTime } from '../format';
import type { Drawn, Line } from './draw';

interface Props {
    label: string;
    /** The start of each step, in milliseconds. */
    at: number[];
    lines: Line[];
    text(value: number): string;
    height?: number;
    unit?: string;
}

const FILE = './chart.js';

export function Chart({ label, at, lines, text, height = 170, unit }: Props) {
    const place = useRef<HTMLDivElement>(null);
    const drawn = useRef<Drawn | null>(null);
    const [pointed, setPointed] = useState<number | null>(null);
    const [wrong, setWrong] = useState('');
    const utc = times.value === 'utc';
    const shown = useRef({ at, lines });
    shown.current = { at, lines };
    const fill = () => drawn.current?.set(shown.current.at.map((ms) => ms / 1000), shown.current.lines);

    // Colours are read once, so another theme draws anew.
    useEffect(() => {
        let gone = false;
        import(FILE)
            .then((file: typeof import('./draw')) => {
                if (gone || !place.current) return;
                drawn.current = file.draw(place.current, { height, text, utc, at: setPointed });
                fill();
            })
            .catch(() => setWrong('The chart could not be loaded; reload the page to try again.'));
        const observer = new ResizeObserver(() => place.current && drawn.current?.resize(place.current.clientWidth));
        if (place.current) observer.observe(place.current);
        return () => {
            gone = true;
            observer.disconnect();
            drawn.current?.destroy();
            drawn.current = null;
        };
    }, [dark.value, utc, lines.map((line) => line.title).join()]);
    useEffect(fill, [at, lines]);

    const index = pointed ?? at.length - 1;
    const when = at[index];
    return (
        <figure class="chart">
            <figcaption class="legend">
                {lines.map((line) => {
                    const value = line.values[index];
                    return (
                        <span key={line.title} class="pill" style={{ '--c': `var(${line.colour})` }}>
                            {line.title} <b>{value === null || value === undefined ? '–' : text(value)}</b>
                        </span>
                    );
                })}
                <span class="dim push">
                    {unit}
                    {pointed !== null && when !== undefined ? ` · ${clockTime(new Date(when), utc)}` : ''}
                </span>
            </figcaption>
            {wrong ? <p class="dim">{wrong}</p> : <div ref={place} class="plot" style={{ height: `${height}px` }} role="img" aria-label={summary(label, lines, text)} />}
        </figure>
    );
}

function summary(label: string, lines: Line[], text: (value: number) => string): string {
    const parts = lines.map((line) => {
        const numbers = line.values.filter((value): value is number => value !== null);
        if (numbers.length === 0) return `${line.title}: nothing`;
        return `${line.title}: ${text(numbers.at(-1) as number)} now, at most ${text(Math.max(...numbers))}`;
    });
    return `${label}. ${parts.join('. ')}.`;
}
