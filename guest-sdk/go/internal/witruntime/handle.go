// Package witruntime is the memory and the handles that pass between Go and the component model. The generated bindings use it.
package witruntime

import (
	"runtime"
	"unsafe"
)

// Handle is a resource of the host. Zero is one that has been given away.
type Handle struct{ value int32 }

func MakeHandle(value int32) *Handle { return &Handle{value} }

// Use gives the handle and keeps it.
func (h *Handle) Use() int32 {
	if h.value == 0 {
		panic("wit: the resource was given away already")
	}
	return h.value
}

// Take gives the handle away.
func (h *Handle) Take() int32 {
	value := h.Use()
	h.value = 0
	return value
}

// TakeOrNil gives the handle away, and zero if it is gone.
func (h *Handle) TakeOrNil() int32 {
	value := h.value
	h.value = 0
	return value
}

func (h *Handle) Set(value int32) { h.value = value }

// Allocate makes room on Go's heap that stays where it is until the pinner lets go.
func Allocate(pinner *runtime.Pinner, size, align uintptr) unsafe.Pointer {
	if size == 0 {
		return unsafe.Pointer(&nothing)
	}
	// Words of eight bytes are aligned for everything that the component model knows.
	room := unsafe.Pointer(unsafe.SliceData(make([]uint64, (size+7)/8)))
	pinner.Pin(room)
	return room
}

var nothing uint64
