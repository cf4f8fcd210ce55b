package windlass

import "time"

// Job is a job, as seen by one attempt.
type Job struct {
	ID      string
	Queue   string
	Payload []byte
	// The number of this attempt, from 1.
	Attempt     uint32
	MaxAttempts uint32
	Tags        map[string]string
	// What the job is about, as type:id; may be empty.
	Scope string
	// The round this job is in, or nil if its queue has no rounds.
	Round     *uint32
	CreatedAt time.Time
	// When this attempt times out; zero if it has no time limit.
	Deadline time.Time
}

// Level is the severity of a log line or a progress event.
type Level uint8

const (
	Debug Level = iota
	Info
	Warn
	Failing
)

// Reason is why an attempt is asked to stop.
type Reason uint8

const (
	// User: the job was cancelled.
	User Reason = iota
	// Timeout: the attempt reached its deadline.
	Timeout
	// Shutdown: the server is shutting down; the job runs again later, and the attempt does not count as a failure.
	Shutdown
	// Swap: a new version of the plugin takes over, and the attempt does not count as a failure.
	Swap
)

func (r Reason) String() string {
	return [...]string{"user", "timeout", "shutdown", "swap"}[r]
}

// Cancel is a request to stop.
type Cancel struct {
	Reason Reason
	// How long until the server ends the attempt by force.
	TimeLeft time.Duration
}

// Progress is a progress event in its full form. Fields that are zero are left out.
type Progress struct {
	// The current phase of the work: "download", "parse".
	Phase   string
	Message string
	// The severity. Zero is [Debug]; [Context.Progress] uses [Info].
	Level  Level
	Detail string
	// A percentage, from 0 to 100; used when Total and Current are zero.
	Percent float64
	Current uint64
	Total   uint64
	// What is counted: "files", "bytes", "rows".
	Unit string
	// The weight of this phase among the job's phases.
	Weight float64
}

// Priority is the order in which a queue's pending jobs run.
type Priority uint8

const (
	// QueuePriority leaves it to the queue.
	QueuePriority Priority = iota
	Critical
	High
	Normal
	Low
)

// Child is a job to start. Anything left zero is decided by the settings of its queue.
type Child struct {
	Queue string
	// Any value that can be written as JSON; a []byte is sent unchanged.
	Payload      any
	Priority     Priority
	Delay        time.Duration
	MaxAttempts  uint32
	UniqueKey    string
	UniquePeriod time.Duration
	Tags         map[string]string
	Scope        string
}
