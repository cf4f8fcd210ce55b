;; Its allocator answers with addresses outside its memory.
(module
  (memory (export "memory") 1)
  (func (export "cabi_realloc") (param i32 i32 i32) (param $size i32) (result i32)
    (i32.const 0xfffffff0))
  (func $run (export "windlass:job/run@0.1.0#run") (param i32) (result i32)
    (unreachable)))
