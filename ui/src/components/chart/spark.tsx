// A line without axes, for a row or a tile. What it shows is also in words beside it.
export function Spark({ values, state = 'pending', width = 84, height = 22 }: { values: (number | null)[]; state?: string; width?: number; height?: number }) {
    const numbers = values.map((value) => value ?? 0);
    const most = Math.max(...numbers, 0);
    if (numbers.length < 2 || most === 0) {
        return (
            <svg class="spark" width={width} height={height} aria-hidden="true">
                <path d={`M0 ${height - 2.5}H${width}`} class="flat" />
            </svg>
        );
    }
    const step = width / (numbers.length - 1);
    const line = numbers.map((value, at) => `${at ? 'L' : 'M'}${(at * step).toFixed(1)} ${(height - 2 - (value / most) * (height - 5)).toFixed(1)}`).join('');
    return (
        <svg class={`spark is-${state}`} width={width} height={height} aria-hidden="true">
            <path d={line} />
        </svg>
    );
}

/** So many values from many: each the mean of its part. */
export function thinned(values: (number | null)[], wanted: number): number[] {
    if (values.length <= wanted) return values.map((value) => value ?? 0);
    const size = values.length / wanted;
    return Array.from({ length: wanted }, (_, at) => {
        const part = values.slice(Math.floor(at * size), Math.max(Math.floor((at + 1) * size), Math.floor(at * size) + 1));
        return part.reduce<number>((sum, value) => sum + (value ?? 0), 0) / part.length;
    });
}
