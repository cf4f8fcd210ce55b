// Package wittypes has the types of the component model that Go lacks. The generated bindings use it.
package wittypes

// Unit is a value that says nothing.
type Unit struct{}

// Tuple2 is a pair.
type Tuple2[A, B any] struct {
	F0 A
	F1 B
}

// Option is a value that may be absent. The zero option is absent.
type Option[T any] struct {
	some  bool
	value T
}

const (
	OptionNone uint8 = iota
	OptionSome
)

// None is the absent value.
func None[T any]() Option[T] { return Option[T]{} }

// Some is a value that is there.
func Some[T any](value T) Option[T] { return Option[T]{some: true, value: value} }

func (o Option[T]) Tag() uint8 {
	if o.some {
		return OptionSome
	}
	return OptionNone
}

func (o Option[T]) IsSome() bool { return o.some }

// Some gives the value; it panics if there is none.
func (o Option[T]) Some() T {
	if !o.some {
		panic("wit: the option is none")
	}
	return o.value
}

// SomeOr gives the value, or this one if there is none.
func (o Option[T]) SomeOr(other T) T {
	if o.some {
		return o.value
	}
	return other
}

// Result is a value or an error.
type Result[T, E any] struct {
	failed bool
	ok     T
	err    E
}

const (
	ResultOk uint8 = iota
	ResultErr
)

func Ok[T, E any](value T) Result[T, E] { return Result[T, E]{ok: value} }
func Err[T, E any](err E) Result[T, E]  { return Result[T, E]{failed: true, err: err} }

func (r Result[T, E]) Tag() uint8 {
	if r.failed {
		return ResultErr
	}
	return ResultOk
}

func (r Result[T, E]) IsOk() bool { return !r.failed }

// Ok gives the value; it panics if there is an error.
func (r Result[T, E]) Ok() T {
	if r.failed {
		panic("wit: the result is an error")
	}
	return r.ok
}

// Err gives the error; it panics if there is none.
func (r Result[T, E]) Err() E {
	if !r.failed {
		panic("wit: the result is no error")
	}
	return r.err
}
