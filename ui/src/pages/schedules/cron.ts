// The usual times, as choices: a cron expression from them, and back where it is one of these.

export type Choice =
    | { every: 'minutes'; n: number }
    | { every: 'hour'; minute: number }
    | { every: 'day'; at: string }
    | { every: 'week'; at: string; days: number[] }
    | { every: 'month'; at: string; day: number }
    | { every: 'other' };

export type Every = Choice['every'];
export const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];

/** What a kind begins with when it is chosen. */
export const FIRST: Record<Every, Choice> = {
    minutes: { every: 'minutes', n: 15 },
    hour: { every: 'hour', minute: 0 },
    day: { every: 'day', at: '02:30' },
    week: { every: 'week', at: '02:30', days: [1, 2, 3, 4, 5] },
    month: { every: 'month', at: '02:30', day: 1 },
    other: { every: 'other' },
};

export function toCron(choice: Choice): string | null {
    const clock = (at: string) => {
        const [hour, minute] = at.split(':').map(Number);
        return `${minute ?? 0} ${hour ?? 0}`;
    };
    switch (choice.every) {
        case 'minutes':
            return choice.n === 1 ? '* * * * *' : `*/${choice.n} * * * *`;
        case 'hour':
            return `${choice.minute} * * * *`;
        case 'day':
            return `${clock(choice.at)} * * *`;
        case 'week':
            return choice.days.length ? `${clock(choice.at)} * * ${ranges(choice.days)}` : null;
        case 'month':
            return `${clock(choice.at)} ${choice.day} * *`;
        case 'other':
            return null;
    }
}

/** `1-5`, `0,6`. */
function ranges(days: number[]): string {
    const sorted = [...new Set(days)].sort();
    const parts: string[] = [];
    for (let at = 0; at < sorted.length; ) {
        let end = at;
        while (sorted[end + 1] === (sorted[end] as number) + 1) end += 1;
        parts.push(end - at >= 2 ? `${sorted[at]}-${sorted[end]}` : sorted.slice(at, end + 1).join(','));
        at = end + 1;
    }
    return parts.join(',');
}

export function fromCron(cron: string): Choice {
    const [minute = '', hour = '', day = '', month = '', weekday = '', more] = cron.trim().split(/\s+/);
    const other: Choice = { every: 'other' };
    if (more !== undefined || month !== '*') return other;
    const number = (text: string, most: number) => (/^\d{1,2}$/.test(text) && Number(text) <= most ? Number(text) : null);
    if (hour === '*' && day === '*' && weekday === '*') {
        if (minute === '*') return { every: 'minutes', n: 1 };
        const step = /^\*\/(\d{1,2})$/.exec(minute);
        if (step && Number(step[1]) > 0 && Number(step[1]) < 60) return { every: 'minutes', n: Number(step[1]) };
        const at = number(minute, 59);
        return at === null ? other : { every: 'hour', minute: at };
    }
    const [m, h] = [number(minute, 59), number(hour, 23)];
    if (m === null || h === null) return other;
    const at = `${String(h).padStart(2, '0')}:${String(m).padStart(2, '0')}`;
    if (day === '*' && weekday === '*') return { every: 'day', at };
    if (day === '*') {
        const days = daysOf(weekday);
        return days ? { every: 'week', at, days } : other;
    }
    const of = number(day, 31);
    return weekday === '*' && of ? { every: 'month', at, day: of } : other;
}

function daysOf(text: string): number[] | null {
    const days: number[] = [];
    for (const part of text.split(',')) {
        const found = /^([0-7])(?:-([0-7]))?$/.exec(part);
        if (!found) return null;
        const [from, to] = [Number(found[1]), Number(found[2] ?? found[1])];
        if (to < from) return null;
        for (let day = from; day <= to; day += 1) days.push(day % 7);
    }
    return days;
}
