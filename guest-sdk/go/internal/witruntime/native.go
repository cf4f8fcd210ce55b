//go:build !wasip1

package witruntime

// Release and Unpin do nothing outside of a component.
func Release() {}
func Unpin()   {}
