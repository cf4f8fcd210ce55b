;; A component whose `run` takes nothing and gives nothing.
(component
  (core module $m (func (export "run")))
  (core instance $i (instantiate $m))
  (func $run (canon lift (core func $i "run")))
  (instance (export "windlass:job/run@0.1.0") (export "run" (func $run))))
