package windlass

import "time"

// Job is one job, as one attempt sees it.
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
	// When this attempt will be stopped; zero if never.
	Deadline time.Time
}

// Level is how serious a log line or a progress event is.
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
	// User: somebody cancelled the job.
	User Reason = iota
	// Timeout: the attempt has used up its time.
	Timeout
	// Shutdown: the server is going down; the job goes on later, at no charge.
	Shutdown
	// Swap: a new version of the plugin takes over, at no charge.
	Swap
)

func (r Reason) String() string {
	return [...]string{"user", "timeout", "shutdown", "swap"}[r]
}

// Cancel is a request to stop.
type Cancel struct {
	Reason Reason
	// After this the attempt is stopped dead.
	TimeLeft time.Duration
}

// Progress is a progress event in its full form. What is left zero is not told.
type Progress struct {
	// The part of the work that is under way: "download", "parse".
	Phase   string
	Message string
	// How serious it is. Zero is [Debug]; [Context.Progress] says [Info].
	Level  Level
	Detail string
	// A share of the whole, from 0 to 100; used when Total and Current are zero.
	Percent float64
	Current uint64
	Total   uint64
	// What is counted: "files", "bytes", "rows".
	Unit string
	// How much this phase counts among the job's phases.
	Weight float64
}

// Priority says which jobs go first in a queue.
type Priority uint8

const (
	// QueuePriority leaves it to the queue.
	QueuePriority Priority = iota
	Critical
	High
	Normal
	Low
)

// Child is a job to start. What is left zero is decided by the queue's own settings.
type Child struct {
	Queue string
	// Any value that can be written as JSON; bytes go as they are.
	Payload      any
	Priority     Priority
	Delay        time.Duration
	MaxAttempts  uint32
	UniqueKey    string
	UniquePeriod time.Duration
	Tags         map[string]string
	Scope        string
}
