//go:build wasip1

package witruntime

import "unsafe"

// The host calls cabi_realloc to make room for what it passes in. While it does, the guest may call no import, and Go's garbage
// collector would: it reads the clock. So this memory does not come from Go's heap. It is taken from below it, from the same
// break that the heap grows by, and used again after Release: whoever calls an import copies what came, then releases.
//
// The first calls come while Go's own runtime starts, from the adapter that stands between WASI 0.1 and 0.2. What it takes then
// it keeps for ever.

type chunk struct{ start, size, used uintptr }

// Each new chunk is at least twice as large as all before it, so this many fill any memory.
var chunks [32]chunk

// Set once Go's runtime has started.
var started bool

func init() { started = true }

const leastChunk = 64 << 10

//go:linkname sbrk runtime.sbrk
func sbrk(size uintptr) unsafe.Pointer

func allocate(size, align uintptr) unsafe.Pointer {
	if size == 0 {
		return unsafe.Pointer(align)
	}
	if !started {
		return unsafe.Pointer(aligned(uintptr(sbrk(size+align)), align))
	}
	total := uintptr(leastChunk)
	for n := range chunks {
		c := &chunks[n]
		if c.start == 0 {
			c.size = max(2*total, size+align)
			c.start = uintptr(sbrk(c.size))
			if c.start == 0 {
				panic("wit: the memory limit of this plugin is reached")
			}
		}
		at := aligned(c.start+c.used, align)
		if at+size <= c.start+c.size {
			c.used = at + size - c.start
			return unsafe.Pointer(at)
		}
		total += c.size
	}
	panic("wit: more was passed in than any memory holds")
}

func aligned(at, align uintptr) uintptr { return (at + align - 1) &^ (align - 1) }

// Release says that all that came from the host has been copied.
func Release() {
	for n := range chunks {
		chunks[n].used = 0
	}
}

// Unpin is called by the generated code before the handler runs. What came in is copied and released by the SDK.
func Unpin() {}

func reallocate(old unsafe.Pointer, oldSize, align, size uintptr) unsafe.Pointer {
	room := allocate(size, align)
	if oldSize > 0 {
		copy(unsafe.Slice((*byte)(room), size), unsafe.Slice((*byte)(old), oldSize))
	}
	return room
}
