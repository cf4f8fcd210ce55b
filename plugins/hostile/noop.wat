;; A good neighbour: returns `null` at once.
(module
  (memory (export "memory") 1)
  ;; A bump allocator: enough for one call.
  (global $next (mut i32) (i32.const 4096))
  (func (export "cabi_realloc") (param i32 i32 i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $next))
    (global.set $next (i32.and (i32.add (i32.add (local.get $at) (local.get $size)) (i32.const 7)) (i32.const -8)))
    (local.get $at))
  ;; The answer: ok, and the address and length of the result.
  (data (i32.const 8) "\00\00\00\00\00\00\00\00\40\00\00\00\04\00\00\00")
  (data (i32.const 64) "null")
  (func $run (export "windlass:job/run@0.1.0#run") (param i32) (result i32)
    (i32.const 8)))
