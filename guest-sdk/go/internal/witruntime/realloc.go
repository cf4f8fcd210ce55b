//go:build wasip1

package witruntime

import "unsafe"

//go:wasmexport cabi_realloc
func cabiRealloc(old unsafe.Pointer, oldSize, align, size uintptr) unsafe.Pointer {
	return reallocate(old, oldSize, align, size)
}
