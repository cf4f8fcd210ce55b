;; A component of another world: it exports a function, but not the one that is needed.
(component
  (core module $m (func (export "go")))
  (core instance $i (instantiate $m))
  (func (export "go") (canon lift (core func $i "go"))))
