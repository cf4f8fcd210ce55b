package windlass

import "encoding/json"

// Recorded is a record: what a job has stored under a key of its queue, and the mark on it.
type Recorded struct {
	Value []byte
	// Empty if there is none.
	Mark string
}

// PutRecord stores a value under a key of the job's own queue, for other jobs to read: as JSON, or unchanged if it is a []byte.
// It is committed with the next checkpoint or the result, and discarded if the attempt fails before then. A value has at most
// 64 KiB. An existing record with this key is replaced.
func (c *Context) PutRecord(key string, value any) error {
	bytes, raw := value.([]byte)
	if !raw {
		var err error
		if bytes, err = json.Marshal(value); err != nil {
			return Fatalf("the record cannot be written as JSON: %w", err)
		}
	}
	return c.server.PutRecord(key, bytes)
}

// GetRecord reads the committed record under a key of a queue, as JSON, and returns nil if there is none; into may be nil. The
// plugin must serve the queue, or a gate must connect it to the job's own queue.
func (c *Context) GetRecord(queue, key string, into any) (*Recorded, error) {
	found, err := c.server.GetRecord(queue, key)
	if err != nil || found == nil || into == nil {
		return found, err
	}
	if err := json.Unmarshal(found.Value, into); err != nil {
		return nil, Fatalf("the record %q of %q is not what was expected: %w", key, queue, err)
	}
	return found, nil
}

// Mark sets the mark on a record, or removes it if mark is empty. It is committed in the same way as a record. Marked records can
// be listed, and their jobs rebuilt by a sweep.
func (c *Context) Mark(queue, key, mark string) error { return c.server.Mark(queue, key, mark) }
