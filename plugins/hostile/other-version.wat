;; A component for a version of the interface that does not exist yet.
(component
  (core module $m (func (export "run")))
  (core instance $i (instantiate $m))
  (func $run (canon lift (core func $i "run")))
  (instance (export "windlass:job/run@0.9.0") (export "run" (func $run))))
