;; Takes a MiB at a time, and touches it, until there is no more. Then it aborts, as most allocators do.
(module
  (memory (export "memory") 1)
  ;; A bump allocator: enough for one call.
  (global $next (mut i32) (i32.const 4096))
  (func (export "cabi_realloc") (param i32 i32 i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $next))
    (global.set $next (i32.and (i32.add (i32.add (local.get $at) (local.get $size)) (i32.const 7)) (i32.const -8)))
    (local.get $at))
  (func $run (export "windlass:job/run@0.1.0#run") (param i32) (result i32)
    (local $page i32)
    (loop $more
      (local.set $page (memory.grow (i32.const 16)))
      (if (i32.eq (local.get $page) (i32.const -1)) (then (unreachable)))
      (i32.store (i32.mul (local.get $page) (i32.const 65536)) (i32.const 1))
      (br $more))
    (unreachable)))
