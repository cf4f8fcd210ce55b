// Times of day and dates as text.

const pad = (value: number, width = 2) => String(value).padStart(width, '0');

export function clockTime(at: Date, utc: boolean, millis = false): string {
    const [h, m, s, ms] = utc
        ? [at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds(), at.getUTCMilliseconds()]
        : [at.getHours(), at.getMinutes(), at.getSeconds(), at.getMilliseconds()];
    return `${pad(h)}:${pad(m)}:${pad(s)}${millis ? '.' + pad(ms, 3) : ''}`;
}

export function dateTime(at: Date, utc: boolean, millis = false): string {
    const [y, m, d] = utc ? [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate()] : [at.getFullYear(), at.getMonth(), at.getDate()];
    return `${y}-${pad(m + 1)}-${pad(d)} ${clockTime(at, utc, millis)}${utc ? ' UTC' : ''}`;
}
