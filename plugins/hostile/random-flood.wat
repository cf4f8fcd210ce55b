;; Reads random numbers and the clock for ever.
(module
  (import "wasi:random/random@0.2.0" "get-random-u64" (func $random (result i64)))
  (import "wasi:clocks/monotonic-clock@0.2.0" "now" (func $now (result i64)))
  (memory (export "memory") 1)
  ;; A bump allocator: enough for one call.
  (global $next (mut i32) (i32.const 4096))
  (func (export "cabi_realloc") (param i32 i32 i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $next))
    (global.set $next (i32.and (i32.add (i32.add (local.get $at) (local.get $size)) (i32.const 7)) (i32.const -8)))
    (local.get $at))
  (func $run (export "windlass:job/run@0.1.0#run") (param i32) (result i32)
    (loop $again
      (drop (call $random))
      (drop (call $now))
      (br $again))
    (unreachable)))
