;; Starts two children, saves a checkpoint, and then starts more until it is refused.
(module
  (import "windlass:job/spawn@0.1.0" "start" (func $start (param i32 i32)))
  (import "windlass:job/checkpoint@0.1.0" "save" (func $save (param i32 i32 i32 i32)))
  (memory (export "memory") 1)
  ;; A bump allocator: enough for one call.
  (global $next (mut i32) (i32.const 4096))
  (func (export "cabi_realloc") (param i32 i32 i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $next))
    (global.set $next (i32.and (i32.add (i32.add (local.get $at) (local.get $size)) (i32.const 7)) (i32.const -8)))
    (local.get $at))
  ;; The answer: ok, and an empty result.
  (data (i32.const 8) "\00\00\00\00\00\00\00\00\40\00\00\00\00\00\00\00")
  (data (i32.const 64) "more")
  ;; The child, at 128: its queue, its payload, and nothing else said.
  (data (i32.const 128) "\40\00\00\00\04\00\00\00\40\00\00\00\04\00\00\00")
  (func $run (export "windlass:job/run@0.1.0#run") (param i32) (result i32)
    (call $start (i32.const 128) (i32.const 512))
    (call $start (i32.const 128) (i32.const 512))
    (call $save (i32.const 1) (i32.const 64) (i32.const 4) (i32.const 512))
    (loop $more
      (call $start (i32.const 128) (i32.const 512))
      (br_if $more (i32.eqz (i32.load8_u (i32.const 512)))))
    (i32.const 8)))
