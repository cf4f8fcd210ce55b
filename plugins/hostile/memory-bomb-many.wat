;; The same with four memories by turns: each stays small, together they are not.
(module
  (memory (export "memory") 1)
  (memory $two 1)
  (memory $three 1)
  (memory $four 1)
  ;; A bump allocator: enough for one call.
  (global $next (mut i32) (i32.const 4096))
  (func (export "cabi_realloc") (param i32 i32 i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $next))
    (global.set $next (i32.and (i32.add (i32.add (local.get $at) (local.get $size)) (i32.const 7)) (i32.const -8)))
    (local.get $at))
  (func $run (export "windlass:job/run@0.1.0#run") (param i32) (result i32)
    (loop $more
      (if (i32.eq (memory.grow 0 (i32.const 16)) (i32.const -1)) (then (unreachable)))
      (if (i32.eq (memory.grow $two (i32.const 16)) (i32.const -1)) (then (unreachable)))
      (if (i32.eq (memory.grow $three (i32.const 16)) (i32.const -1)) (then (unreachable)))
      (if (i32.eq (memory.grow $four (i32.const 16)) (i32.const -1)) (then (unreachable)))
      (br $more))
    (unreachable)))
