;; Starts a child with 64 million empty tags.
(module
  (import "windlass:job/spawn@0.1.0" "start" (func $start (param i32 i32)))
  (memory (export "memory") 16500)
  (data (i32.const 64) "more")
  ;; The child, at 128: its queue, its payload, and at 208 its tags.
  (data (i32.const 128) "\40\00\00\00\04\00\00\00\40\00\00\00\04\00\00\00")
  (data (i32.const 208) "\00\00\01\00\00\00\00\04")
  ;; A bump allocator: enough for one call.
  (global $next (mut i32) (i32.const 4096))
  (func (export "cabi_realloc") (param i32 i32 i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $next))
    (global.set $next (i32.and (i32.add (i32.add (local.get $at) (local.get $size)) (i32.const 7)) (i32.const -8)))
    (local.get $at))
  (func $run (export "windlass:job/run@0.1.0#run") (param i32) (result i32)
    (call $start (i32.const 128) (i32.const 512))
    (unreachable)))
