;; A core module: valid WebAssembly, but not a component.
(module
  (func (export "run") (result i32) (i32.const 0)))
