// The shapes that pages use, of what the API describes. tests/console/agreement.test.mjs compares the routes and methods that the console
// uses with /openapi.json, and each browser test every request that was made.
import type { Denial } from '../components/grants';

export type State = 'scheduled' | 'blocked' | 'pending' | 'active' | 'retrying' | 'completed' | 'dead' | 'cancelled' | 'held';
export const STATES: State[] = ['active', 'pending', 'retrying', 'scheduled', 'blocked', 'held', 'dead', 'completed', 'cancelled'];
export const ENDED: State[] = ['completed', 'dead', 'cancelled'];

export interface Progress {
    ts: string;
    phase?: string;
    message?: string;
    level?: string;
    detail?: unknown;
    percent?: number;
    current?: number;
    total?: number;
    unit?: string;
}

export interface Live {
    cpu_ms: number;
    memory_bytes: number;
    memory_peak_bytes: number;
    host_calls: number;
    log_bytes: number;
    cpu_limit_ms: number | null;
    memory_limit_bytes: number;
    log_limit_bytes: number;
    hits: string[];
    deadline: string | null;
    stopping_since: string | null;
    stopping_reason: string | null;
    stopped_by: string | null;
}

export interface QueueRow {
    name: string;
    served_by?: string | null;
    paused: boolean;
    draining: boolean;
    max_concurrency: number | null;
    rate_limit: number | null;
    rate_window_ms: number | null;
    created_at: string;
    total: number;
    open: number;
    pending: number;
    active: number;
    scheduled: number;
    retrying: number;
    held: number;
    blocked: number;
    completed: number;
    dead: number;
    cancelled: number;
    enqueued: number;
    failed: number;
    oldest_pending_at: string | null;
    enqueued_per_second: number;
    completed_per_second: number;
    failed_attempts_per_second: number;
    enqueued_per_second_5s: number;
    completed_per_second_5s: number;
    failed_attempts_per_second_5s: number;
    rounds?: unknown;
}

export interface Canary {
    plugin?: string;
    running?: number;
    [more: string]: unknown;
}

export interface Worker {
    id: string;
    hostname?: string;
    queues: string[];
    draining?: boolean;
    active?: number;
    started_at: string;
    last_heartbeat: string;
}

export interface Bulk {
    id: string;
    status: string;
    action: string;
    total: number;
    processed: number;
    affected: number;
    errors: number;
    error: string | null;
}

export interface Preview {
    text: string;
    encoding: 'text' | 'base64' | 'encrypted';
    size_bytes: number;
    truncated: boolean;
}

export interface Job {
    id: string;
    queue: string;
    state: State;
    priority: string;
    attempt: number;
    max_attempts: number;
    failures: number;
    crashes: number;
    tags: Record<string, string>;
    created_at: string;
    updated_at: string;
    scheduled_at?: string;
    started_at?: string;
    completed_at?: string;
    failed_at?: string;
    expire_at?: string;
    progress: Progress | null;
    last_error?: string;
    hold_reason?: string;
    cancel_reason?: string;
    cancel_requested_at?: string;
    plugin?: string;
    plugin_version?: string;
    pinned_version?: string;
    worker?: { id: string; hostname?: string };
    parent_id?: string;
    depth?: number;
    round?: number;
    batch_id?: string;
    chain_id?: string;
    chain_step?: number;
    callback_of?: string;
    schedule?: string;
    created_by?: string;
    unique_key?: string;
    limit_key?: string;
    scope?: string;
    error_fingerprint?: string;
    attempt_timeout?: string;
    stall_timeout?: string;
    max_duration?: string;
    retry_backoff?: string;
    retry_base_delay?: string;
    retry_max_delay?: string;
    lease_expires_at?: string;
    heartbeat_at?: string;
    attempt_usage?: Usage;
    usage?: Record<string, unknown>;
    payload_preview?: Preview | null;
    payload_size?: number;
}

export interface Usage {
    cpu_ms?: number;
    wall_ms?: number;
    peak_memory?: number;
    host_calls?: number;
    log_bytes?: number;
}

export interface JobError {
    attempt: number;
    error: string;
    backtrace?: string | null;
    at: string;
}

export interface Step {
    at: string;
    [more: string]: unknown;
}

export interface WholeJob extends Job {
    checkpoint_preview?: Preview | null;
    result_preview?: Preview | null;
    checkpoint_schema?: number;
    children?: Record<string, number>;
    chain_config?: unknown;
    depends_on?: string[];
    waits_for?: { count: number; jobs: string[]; round?: number; reason?: string };
    errors: JobError[];
    timeline: Step[];
    timeline_dropped?: number;
}

export interface Search {
    jobs: Job[];
    total: number;
    cursor: string | null;
    has_more: boolean;
    duration_ms: number;
}

export interface Attempt extends Usage {
    number: number;
    attempt: number;
    outcome: string;
    reason: string | null;
    queued_at: string | null;
    started_at: string | null;
    ended_at: string | null;
    waited_ms: number | null;
    ran_ms: number | null;
    backoff_ms: number | null;
    next_at: string | null;
    error: string | null;
    backtrace: string | null;
    canary: boolean;
    hits: string[];
    denials: Denial[];
    live?: Live | null;
    plugin?: string;
    plugin_version?: string;
    worker?: { id: string; hostname?: string };
}

export interface DeadGroup {
    fingerprint: string;
    pattern: string;
    count: number;
    queues: { queue: string; count: number }[];
    sample_error: string;
    sample_job_id: string;
    first_at: string;
    last_at: string;
    versions: { plugin?: string; plugin_version?: string; worker?: boolean; count: number }[];
}

export interface Series {
    queue: string | null;
    window_ms: number;
    step_ms: number;
    since: string;
    tracked: boolean;
    at: string[];
    enqueued: number[];
    completed: number[];
    failed_attempts: number[];
    dead: number[];
    pending: number[];
    active: number[];
    wait_ms: Percentiles;
    run_ms: Percentiles;
}

export interface Percentiles {
    p50: (number | null)[];
    p95: (number | null)[];
    p99: (number | null)[];
}

export interface DryRun {
    dry_run: true;
    action: string;
    total: number;
    affected: number;
    passed_over: number;
    by_state: { state: string | null; count: number; affected: boolean }[];
    reasons: { reason: string; state: string | null; count: number }[];
    sample: string[];
}
