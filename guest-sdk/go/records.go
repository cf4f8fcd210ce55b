package windlass

import "encoding/json"

// Recorded is what a job has recorded under a key, and the mark that somebody has put on it.
type Recorded struct {
	Value []byte
	// Empty if there is none.
	Mark string
}

// PutRecord puts a value, as JSON, under a key of the job's own queue, for other jobs to read; bytes go as they are. It is
// committed with the next checkpoint or the result, or never. A value has at most 64 KiB; what was under the key before is
// replaced.
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

// GetRecord reads what is committed under a key of a queue, as JSON, and says whether there is anything; into may be nil. It must
// be a queue that the plugin serves, or that a gate ties to the job's own.
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

// Mark puts a mark on a record, or takes it off when it is empty; committed as a record is. Marked ones can be listed, and their
// jobs swept.
func (c *Context) Mark(queue, key, mark string) error { return c.server.Mark(queue, key, mark) }
