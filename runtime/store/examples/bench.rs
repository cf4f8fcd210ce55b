use std::sync::Arc; use std::time::*; use windlass_core::*; use windlass_store::*;
#[global_allocator] static A: mimalloc::MiMalloc = mimalloc::MiMalloc;
struct C; impl Clock for C { fn now(&self)->Time{ Time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64)} }
fn main(){
  let a:Vec<String>=std::env::args().collect();
  let s=bench::Setting{dir:"/tmp".into(),clock:Arc::new(C),quick:a.iter().any(|x|x=="--quick"),victim:vec![a[0].clone(),"victim".into()],say:Box::new(|t|eprintln!("{t}"))};
  if a.get(1).map(|x|x=="victim").unwrap_or(false) { bench::run_victim(&s, a[2].as_ref(), a[3].parse().unwrap()).unwrap(); return; }
  for f in bench::run(&s).unwrap() { println!("{f:?} holds={}", f.holds()); }
}
