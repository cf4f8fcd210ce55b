;; Starts a child, saves, and traps while the host is giving its answer; or right after it.
(module
  (import "windlass:job/spawn@0.1.0" "start" (func $start (param i32 i32)))
  (import "windlass:job/checkpoint@0.1.0" "save" (func $save (param i32 i32 i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 64) "more")
  ;; The child, at 128: its queue, its payload, and nothing else said.
  (data (i32.const 128) "\40\00\00\00\04\00\00\00\40\00\00\00\04\00\00\00")
  ;; A bump allocator, until the checkpoint: then the host wants room for the words of its refusal.
  (global $next (mut i32) (i32.const 4096))
  (global $saving (mut i32) (i32.const 0))
  (func (export "cabi_realloc") (param i32 i32 i32) (param $size i32) (result i32)
    (local $at i32)
    (if (global.get $saving) (then (unreachable)))
    (local.set $at (global.get $next))
    (global.set $next (i32.and (i32.add (i32.add (local.get $at) (local.get $size)) (i32.const 7)) (i32.const -8)))
    (local.get $at))
  (func $run (export "windlass:job/run@0.1.0#run") (param i32) (result i32)
    (call $start (i32.const 128) (i32.const 512))
    (global.set $saving (i32.const 1))
    (call $save (i32.const 1) (i32.const 64) (i32.const 4) (i32.const 512))
    (unreachable)))
