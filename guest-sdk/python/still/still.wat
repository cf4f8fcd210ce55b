;; Linked into a plugin's component while it is built, and idle afterwards: see reproducible.py, which puts it there, and windlass/_still.py, which calls it.
;;
;; Memory of its own, from $b: 0 to 75 are names and values, 76 is our allocator, 96 + 32 d is the interpreter's allocator of domain d,
;; 192 is where os.listdir is registered and 196 what was registered there, 200 is the pool of listings, 204 its next free byte,
;; 208 its end, 212 the first listing, 216 the last one, 220 is where os.stat is registered and 224 what was registered there,
;; 256 a struct stat.
;; A listing is: next, path, number of names, where the array of pointers to names is.
(module
  (@dylink.0 (mem-info (memory 512 8) (table 6 0)))
  (import "env" "memory" (memory 0))
  (import "env" "__indirect_function_table" (table 0 funcref))
  (import "env" "__memory_base" (global $b i32))
  (import "env" "__table_base" (global $t i32))
  (import "env" "getenv" (func $getenv (param i32) (result i32)))
  (import "env" "setenv" (func $setenv (param i32 i32 i32) (result i32)))
  (import "env" "malloc" (func $malloc (param i32) (result i32)))
  (import "env" "realloc" (func $realloc (param i32 i32) (result i32)))
  (import "env" "free" (func $free (param i32)))
  (import "env" "malloc_usable_size" (func $usable (param i32) (result i32)))
  (import "env" "opendir" (func $opendir (param i32) (result i32)))
  (import "env" "readdir" (func $readdir (param i32) (result i32)))
  (import "env" "closedir" (func $closedir (param i32) (result i32)))
  (import "env" "strlen" (func $strlen (param i32) (result i32)))
  (import "env" "strcmp" (func $strcmp (param i32 i32) (result i32)))
  (import "env" "PyMem_GetAllocator" (func $get_allocator (param i32 i32)))
  (import "env" "PyMem_SetAllocator" (func $set_allocator (param i32 i32)))
  (import "env" "PyUnicode_AsUTF8" (func $utf8 (param i32) (result i32)))
  (import "env" "PyUnicode_DecodeFSDefault" (func $string (param i32) (result i32)))
  (import "env" "PyList_New" (func $list (param i32) (result i32)))
  (import "env" "PyList_SetItem" (func $put (param i32 i32 i32) (result i32)))
  (import "env" "PyErr_Clear" (func $clear))
  (import "env" "stat" (func $stat (param i32 i32) (result i32)))
  (import "env" "PyTuple_New" (func $tuple (param i32) (result i32)))
  (import "env" "PyTuple_SetItem" (func $set_item (param i32 i32 i32) (result i32)))
  (import "env" "PyLong_FromLongLong" (func $int (param i64) (result i32)))
  (import "env" "PyObject_GetAttrString" (func $attribute (param i32 i32) (result i32)))
  (import "env" "PyObject_CallOneArg" (func $call (param i32 i32) (result i32)))
  (import "env" "Py_DecRef" (func $drop (param i32)))
  (type $method (func (param i32 i32 i32 i32) (result i32)))
  (global $pool_bytes i32 (i32.const 0x80000))
  ;; The value at 16 is overwritten by reproducible.py: ten digits.
  (data (global.get $b) "PYTHONHASHSEED\00\00" "0000000001\00\00" "PYTHONPATH\00" "PYTHONDONTWRITEBYTECODE\00\00" "stat_result\00")
  (elem (global.get $t) func $py_malloc $py_calloc $py_realloc $py_free $py_listdir $py_stat)
  
  ;; An allocator that leaves nothing behind: what it gives and what it gets back is zeroed whole.
  (func $py_malloc (param $ctx i32) (param $n i32) (result i32) (local $p i32)
    (local.set $p (call $malloc (select (local.get $n) (i32.const 1) (local.get $n))))
    (if (local.get $p) (then (memory.fill (local.get $p) (i32.const 0) (call $usable (local.get $p)))))
    (local.get $p))
  (func $py_calloc (param $ctx i32) (param $n i32) (param $size i32) (result i32) (local $all i64)
    (local.set $all (i64.mul (i64.extend_i32_u (local.get $n)) (i64.extend_i32_u (local.get $size))))
    (if (i64.gt_u (local.get $all) (i64.const 0x7fffffff)) (then (return (i32.const 0))))
    (call $py_malloc (local.get $ctx) (i32.wrap_i64 (local.get $all))))
  (func $py_realloc (param $ctx i32) (param $p i32) (param $n i32) (result i32) (local $q i32) (local $old i32) (local $new i32)
    (if (i32.eqz (local.get $p)) (then (return (call $py_malloc (local.get $ctx) (local.get $n)))))
    (local.set $old (call $usable (local.get $p)))
    (local.set $q (call $realloc (local.get $p) (select (local.get $n) (i32.const 1) (local.get $n))))
    (if (local.get $q) (then
      (local.set $new (call $usable (local.get $q)))
      (if (i32.gt_u (local.get $new) (local.get $old)) (then
        (memory.fill (i32.add (local.get $q) (local.get $old)) (i32.const 0) (i32.sub (local.get $new) (local.get $old)))))))
    (local.get $q))
  (func $py_free (param $ctx i32) (param $p i32)
    (if (local.get $p) (then
      (memory.fill (local.get $p) (i32.const 0) (call $usable (local.get $p)))
      (call $free (local.get $p)))))

  ;; All folders are read before the interpreter starts, because the order in which a file system names files would decide where
  ;; objects lie. 0 if the pool is full.
  (func $take (param $bytes i32) (result i32) (local $p i32)
    (local.set $p (i32.load offset=204 (global.get $b)))
    (local.set $bytes (i32.and (i32.add (local.get $bytes) (i32.const 3)) (i32.const -4)))
    (if (i32.gt_u (i32.add (local.get $p) (local.get $bytes)) (i32.load offset=208 (global.get $b))) (then (return (i32.const 0))))
    (i32.store offset=204 (global.get $b) (i32.add (local.get $p) (local.get $bytes)))
    (local.get $p))
  ;; Adds a folder to be read: $n bytes of $path, then "/" and $name if there is one.
  (func $add (param $path i32) (param $n i32) (param $name i32) (local $r i32) (local $p i32) (local $more i32)
    (local.set $r (call $take (i32.const 16)))
    (if (local.get $name) (then (local.set $more (i32.add (call $strlen (local.get $name)) (i32.const 1)))))
    (local.set $p (call $take (i32.add (i32.add (local.get $n) (local.get $more)) (i32.const 1))))
    (if (i32.eqz (i32.and (i32.ne (local.get $r) (i32.const 0)) (i32.ne (local.get $p) (i32.const 0)))) (then (return)))
    (memory.copy (local.get $p) (local.get $path) (local.get $n))
    (if (local.get $name) (then
      (i32.store8 (i32.add (local.get $p) (local.get $n)) (i32.const 47))
      (memory.copy (i32.add (i32.add (local.get $p) (local.get $n)) (i32.const 1)) (local.get $name) (local.get $more)))
      (else (i32.store8 (i32.add (local.get $p) (local.get $n)) (i32.const 0))))
    (i32.store (local.get $r) (i32.const 0))
    (i32.store offset=4 (local.get $r) (local.get $p))
    (i32.store offset=8 (local.get $r) (i32.const -1))
    (if (i32.load offset=216 (global.get $b))
      (then (i32.store (i32.load offset=216 (global.get $b)) (local.get $r)))
      (else (i32.store offset=212 (global.get $b) (local.get $r))))
    (i32.store offset=216 (global.get $b) (local.get $r)))
  (func $is_dots (param $name i32) (result i32)
    (if (i32.ne (i32.load8_u (local.get $name)) (i32.const 46)) (then (return (i32.const 0))))
    (if (i32.eqz (i32.load8_u offset=1 (local.get $name))) (then (return (i32.const 1))))
    (i32.and (i32.eq (i32.load8_u offset=1 (local.get $name)) (i32.const 46)) (i32.eqz (i32.load8_u offset=2 (local.get $name)))))
  ;; Reads one folder. Pointers to names grow down from the end of the pool, sorted, and are copied when all are known.
  (func $read (param $r i32) (local $dir i32) (local $e i32) (local $name i32) (local $n i32) (local $i i32) (local $end i32) (local $count i32)
    (local.set $dir (call $opendir (i32.load offset=4 (local.get $r))))
    (if (i32.eqz (local.get $dir)) (then (return)))
    (local.set $end (i32.load offset=208 (global.get $b)))
    (block $done
      (loop $next
        (local.set $e (call $readdir (local.get $dir)))
        (br_if $done (i32.eqz (local.get $e)))
        ;; struct dirent: d_ino in 8 bytes, d_type in 1, d_name
        (local.set $name (i32.add (local.get $e) (i32.const 9)))
        (br_if $next (call $is_dots (local.get $name)))
        (local.set $n (i32.add (call $strlen (local.get $name)) (i32.const 1)))
        (i32.store offset=208 (global.get $b) (i32.sub (i32.load offset=208 (global.get $b)) (i32.const 4)))
        (local.set $i (call $take (i32.add (local.get $n) (i32.const 4))))
        (if (i32.eqz (local.get $i)) (then
          (local.set $count (i32.const -1))
          (br $done)))
        ;; its type, then its name
        (i32.store (local.get $i) (i32.load8_u offset=8 (local.get $e)))
        (local.set $name (i32.add (local.get $i) (i32.const 4)))
        (memory.copy (local.get $name) (i32.add (local.get $e) (i32.const 9)) (local.get $n))
        (local.set $i (i32.load offset=208 (global.get $b)))
        (block $sorted
          (loop $sift
            (br_if $sorted (i32.ge_u (i32.add (local.get $i) (i32.const 4)) (local.get $end)))
            (br_if $sorted (i32.ge_s (call $strcmp (i32.load offset=4 (local.get $i)) (local.get $name)) (i32.const 0)))
            (i32.store (local.get $i) (i32.load offset=4 (local.get $i)))
            (local.set $i (i32.add (local.get $i) (i32.const 4)))
            (br $sift)))
        (i32.store (local.get $i) (local.get $name))
        (local.set $count (i32.add (local.get $count) (i32.const 1)))
        (br $next)))
    (drop (call $closedir (local.get $dir)))
    (local.set $e (i32.load offset=208 (global.get $b)))
    (i32.store offset=208 (global.get $b) (local.get $end))
    (if (i32.lt_s (local.get $count) (i32.const 0)) (then (return)))
    (local.set $i (call $take (i32.shl (local.get $count) (i32.const 2))))
    (if (i32.eqz (local.get $i)) (then (return)))
    (memory.copy (local.get $i) (local.get $e) (i32.shl (local.get $count) (i32.const 2)))
    (i32.store offset=8 (local.get $r) (local.get $count))
    (i32.store offset=12 (local.get $r) (local.get $i))
    (local.set $end (i32.add (local.get $i) (i32.shl (local.get $count) (i32.const 2))))
    (block $all
      (loop $folders
        (br_if $all (i32.ge_u (local.get $i) (local.get $end)))
        (local.set $name (i32.load (local.get $i)))
        (if (i32.eq (i32.load (i32.sub (local.get $name) (i32.const 4))) (i32.const 3)) (then
          (call $add (i32.load offset=4 (local.get $r)) (call $strlen (i32.load offset=4 (local.get $r))) (local.get $name))))
        (local.set $i (i32.add (local.get $i) (i32.const 4)))
        (br $folders))))
  (func $read_all (local $p i32) (local $from i32) (local $r i32)
    (local.set $p (call $malloc (global.get $pool_bytes)))
    (if (i32.eqz (local.get $p)) (then (return)))
    (memory.fill (local.get $p) (i32.const 0) (global.get $pool_bytes))
    (i32.store offset=200 (global.get $b) (local.get $p))
    (i32.store offset=204 (global.get $b) (local.get $p))
    (i32.store offset=208 (global.get $b) (i32.add (local.get $p) (global.get $pool_bytes)))
    (local.set $p (call $getenv (i32.add (global.get $b) (i32.const 28))))
    (if (i32.eqz (local.get $p)) (then (return)))
    (local.set $from (local.get $p))
    (loop $paths
      (if (i32.or (i32.eqz (i32.load8_u (local.get $p))) (i32.eq (i32.load8_u (local.get $p)) (i32.const 58))) (then
        (call $add (local.get $from) (i32.sub (local.get $p) (local.get $from)) (i32.const 0))
        (local.set $from (i32.add (local.get $p) (i32.const 1)))))
      (local.set $p (i32.add (local.get $p) (i32.const 1)))
      (br_if $paths (i32.load8_u (i32.sub (local.get $p) (i32.const 1)))))
    (local.set $r (i32.load offset=212 (global.get $b)))
    (block $done
      (loop $each
        (br_if $done (i32.eqz (local.get $r)))
        (call $read (local.get $r))
        (local.set $r (i32.load (local.get $r)))
        (br $each))))

  ;; os.listdir for folders that were read; whatever else it is asked for, the interpreter's own does.
  (func $py_listdir (type $method) (param $self i32) (param $args i32) (param $n i32) (param $kw i32) (result i32)
    (local $path i32) (local $r i32) (local $i i32) (local $out i32)
    (block $plain
      (br_if $plain (i32.or (i32.ne (local.get $n) (i32.const 1)) (local.get $kw)))
      (local.set $path (call $utf8 (i32.load (local.get $args))))
      (if (i32.eqz (local.get $path)) (then
        (call $clear)
        (br $plain)))
      (local.set $r (i32.load offset=212 (global.get $b)))
      (loop $search
        (br_if $plain (i32.eqz (local.get $r)))
        (if (call $strcmp (i32.load offset=4 (local.get $r)) (local.get $path)) (then
          (local.set $r (i32.load (local.get $r)))
          (br $search))))
      (br_if $plain (i32.lt_s (i32.load offset=8 (local.get $r)) (i32.const 0)))
      (local.set $out (call $list (i32.load offset=8 (local.get $r))))
      (br_if $plain (i32.eqz (local.get $out)))
      (block $all
        (loop $each
          (br_if $all (i32.ge_u (local.get $i) (i32.load offset=8 (local.get $r))))
          (drop (call $put (local.get $out) (local.get $i)
            (call $string (i32.load (i32.add (i32.load offset=12 (local.get $r)) (i32.shl (local.get $i) (i32.const 2)))))))
          (local.set $i (i32.add (local.get $i) (i32.const 1)))
          (br $each)))
      (return (local.get $out)))
    (call_indirect (type $method) (local.get $self) (local.get $args) (local.get $n) (local.get $kw) (i32.load offset=196 (global.get $b))))
  ;; os.stat without what no source decides: times, the number of the file, and the size of a folder are zero.
  (func $py_stat (type $method) (param $self i32) (param $args i32) (param $n i32) (param $kw i32) (result i32)
    (local $path i32) (local $kind i32) (local $told i32) (local $out i32) (local $i i32)
    (block $plain
      (br_if $plain (i32.or (i32.ne (local.get $n) (i32.const 1)) (local.get $kw)))
      (local.set $path (call $utf8 (i32.load (local.get $args))))
      (if (i32.eqz (local.get $path)) (then
        (call $clear)
        (br $plain)))
      (br_if $plain (call $stat (local.get $path) (i32.add (global.get $b) (i32.const 256))))
      (local.set $kind (call $attribute (local.get $self) (i32.add (global.get $b) (i32.const 64))))
      (local.set $told (call $tuple (i32.const 10)))
      (loop $each
        (drop (call $set_item (local.get $told) (local.get $i) (call $int (i64.const 0))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $each (i32.lt_u (local.get $i) (i32.const 10))))
      ;; st_mode is at 24, st_size at 48
      (local.set $i (i32.load offset=280 (global.get $b)))
      (drop (call $set_item (local.get $told) (i32.const 0) (call $int (i64.extend_i32_u (local.get $i)))))
      (if (i32.ne (i32.and (local.get $i) (i32.const 0xf000)) (i32.const 0x4000)) (then
        (drop (call $set_item (local.get $told) (i32.const 6) (call $int (i64.load offset=304 (global.get $b)))))))
      (local.set $out (call $call (local.get $kind) (local.get $told)))
      (call $drop (local.get $told))
      (call $drop (local.get $kind))
      (return (local.get $out)))
    (call_indirect (type $method) (local.get $self) (local.get $args) (local.get $n) (local.get $kw) (i32.load offset=224 (global.get $b))))

  ;; Finds where os.listdir is registered: a PyMethodDef with this name, for METH_FASTCALL | METH_KEYWORDS. os.stat is in the same table.
  (func $find_methods (local $s i32) (local $m i32)
    (local.set $s (i32.const 0x10000))
    (block $found
      (loop $strings
        (if (i64.eq (i64.load (local.get $s)) (i64.const 0x007269647473696c)) (then ;; "listdir\0"
          (local.set $m (i32.const 0x10000))
          (loop $words
            (br_if $found (i32.and (i32.eq (i32.load (local.get $m)) (local.get $s)) (i32.eq (i32.load offset=8 (local.get $m)) (i32.const 0x82))))
            (local.set $m (i32.add (local.get $m) (i32.const 4)))
            (br_if $words (i32.lt_u (local.get $m) (global.get $b))))))
        (local.set $s (i32.add (local.get $s) (i32.const 1)))
        (br_if $strings (i32.lt_u (local.get $s) (global.get $b))))
      (return))
    (i32.store offset=192 (global.get $b) (local.get $m))
    (loop $before
      (local.set $m (i32.sub (local.get $m) (i32.const 16)))
      (br_if $before (i32.load (local.get $m))))
    (loop $each
      (local.set $m (i32.add (local.get $m) (i32.const 16)))
      (local.set $s (i32.load (local.get $m)))
      (if (i32.eqz (local.get $s)) (then (return)))
      (if (i32.and (i32.eq (i32.load (local.get $s)) (i32.const 0x74617473)) (i32.eqz (i32.load8_u offset=4 (local.get $s)))) (then ;; "stat\0"
        (i32.store offset=220 (global.get $b) (local.get $m))
        (return)))
      (br $each)))
  ;; Puts a function into a method's place. What was there is kept after the place.
  (func $replace (param $place i32) (param $function i32) (local $m i32)
    (local.set $m (i32.load (local.get $place)))
    (if (local.get $m) (then
      (i32.store offset=4 (local.get $place) (i32.load offset=4 (local.get $m)))
      (i32.store offset=4 (local.get $m) (local.get $function)))))

  ;; Before the interpreter starts.
  (func (export "__wasm_call_ctors") (local $d i32) (local $m i32)
    (drop (call $setenv (global.get $b) (i32.add (global.get $b) (i32.const 16)) (i32.const 1)))
    (drop (call $setenv (i32.add (global.get $b) (i32.const 39)) (i32.add (global.get $b) (i32.const 16)) (i32.const 1)))
    (call $read_all)
    (call $wipe)
    (call $find_methods)
    (call $replace (i32.add (global.get $b) (i32.const 192)) (i32.add (global.get $t) (i32.const 4)))
    (call $replace (i32.add (global.get $b) (i32.const 220)) (i32.add (global.get $t) (i32.const 5)))
    (i32.store offset=80 (global.get $b) (global.get $t))
    (i32.store offset=84 (global.get $b) (i32.add (global.get $t) (i32.const 1)))
    (i32.store offset=88 (global.get $b) (i32.add (global.get $t) (i32.const 2)))
    (i32.store offset=92 (global.get $b) (i32.add (global.get $t) (i32.const 3)))
    (loop $domains
      (call $get_allocator (local.get $d) (i32.add (global.get $b) (i32.add (i32.const 96) (i32.mul (local.get $d) (i32.const 32)))))
      (call $set_allocator (local.get $d) (i32.add (global.get $b) (i32.const 76)))
      (local.set $d (i32.add (local.get $d) (i32.const 1)))
      (br_if $domains (i32.lt_u (local.get $d) (i32.const 3)))))

  ;; Takes all free memory, zeroes it, and gives it back.
  (func $wipe (local $size i32) (local $p i32) (local $taken i32) (local $end i32)
    (local.set $end (i32.shl (memory.size) (i32.const 16)))
    (local.set $size (i32.const 65536))
    (block $done
      (loop $again
        (local.set $p (call $malloc (local.get $size)))
        (if (i32.or (i32.eqz (local.get $p)) (i32.ge_u (i32.add (local.get $p) (local.get $size)) (local.get $end)))
          (then
            ;; Beyond the end it is memory that nobody has used.
            (if (local.get $p) (then (call $free (local.get $p))))
            (br_if $done (i32.le_u (local.get $size) (i32.const 12)))
            (local.set $size (select
              (i32.shr_u (local.get $size) (i32.const 1))
              (i32.sub (local.get $size) (i32.const 16))
              (i32.gt_u (local.get $size) (i32.const 4096))))
            (if (i32.lt_s (local.get $size) (i32.const 12)) (then (local.set $size (i32.const 12)))))
          (else
            (memory.fill (local.get $p) (i32.const 0) (call $usable (local.get $p)))
            (i32.store (local.get $p) (local.get $taken))
            (local.set $taken (local.get $p))))
        (br $again)))
    (block $given
      (loop $more
        (br_if $given (i32.eqz (local.get $taken)))
        (local.set $p (local.get $taken))
        (local.set $taken (i32.load (local.get $p)))
        (i32.store (local.get $p) (i32.const 0))
        (call $free (local.get $p))
        (br $more))))
  ;; When the plugin is imported: everything is put back.
  (func (export "PyInit_still") (result i32) (local $d i32)
    (call $replace (i32.add (global.get $b) (i32.const 192)) (i32.load offset=196 (global.get $b)))
    (call $replace (i32.add (global.get $b) (i32.const 220)) (i32.load offset=224 (global.get $b)))
    (memory.fill (i32.add (global.get $b) (i32.const 256)) (i32.const 0) (i32.const 256))
    (loop $domains
      (call $set_allocator (local.get $d) (i32.add (global.get $b) (i32.add (i32.const 96) (i32.mul (local.get $d) (i32.const 32)))))
      (local.set $d (i32.add (local.get $d) (i32.const 1)))
      (br_if $domains (i32.lt_u (local.get $d) (i32.const 3))))
    (call $py_free (i32.const 0) (i32.load offset=200 (global.get $b)))
    (call $wipe)
    (i32.const 0)))
