//! seccomp: which system calls pass. All others fail with EPERM, so that a library that can do without one still works.

use std::collections::BTreeMap;
use std::process;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

use crate::confinement::Protection;

/// The calls that pass whatever their arguments are: memory, threads, clocks, and files that are open.
const PASS: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    // Answered by the other filter.
    libc::SYS_clone3,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_sysinfo,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Of linux/prctl.h.
const PR_SET_VMA: u64 = 0x5356_4d41;

/// A condition on one argument of a call.
struct Only {
    call: c_long,
    argument: u8,
    is: SeccompCmpOp,
    value: u64,
}

/// The calls that pass with some arguments only.
fn conditions() -> [Only; 7] {
    let executable = SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64);
    let thread = libc::CLONE_THREAD as u64;
    let only = |call, argument, is, value| Only { call, argument, is, value };
    [
        // No memory becomes code.
        only(libc::SYS_mmap, 2, executable.clone(), 0),
        only(libc::SYS_mprotect, 2, executable, 0),
        // A thread of this process, not another process.
        only(libc::SYS_clone, 0, SeccompCmpOp::MaskedEq(thread), thread),
        // The name of a thread, and of a mapping, which some allocators set.
        only(libc::SYS_prctl, 0, SeccompCmpOp::Eq, libc::PR_SET_NAME as u64),
        only(libc::SYS_prctl, 0, SeccompCmpOp::Eq, PR_SET_VMA),
        // An allocation that fails aborts this process: a signal to itself.
        only(libc::SYS_tgkill, 0, SeccompCmpOp::Eq, u64::from(process::id())),
        // Its own priority.
        only(libc::SYS_sched_setscheduler, 0, SeccompCmpOp::Eq, 0),
    ]
}

pub(super) fn restrict() -> Protection {
    let arch = TargetArch::try_from(std::env::consts::ARCH)
        .map_err(|_| format!("not on this processor ({})", std::env::consts::ARCH))?;
    let filters = filters(arch).map_err(|error| format!("its filter cannot be made: {error}"))?;
    for filter in &filters {
        apply_filter(filter).map_err(|error| format!("the kernel refuses its filter: {error}"))?;
    }
    let calls = PASS.len() + conditions().len();
    Ok(format!("{calls} system calls are left"))
}

/// In the order in which they are installed.
fn filters(arch: TargetArch) -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    // The arguments of this newer call cannot be looked at; without it the C library uses the older one.
    let newer = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let newer = SeccompFilter::new(newer, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32), arch)?;
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> = PASS.iter().map(|call| (*call, Vec::new())).collect();
    for Only { call, argument, is, value } in conditions() {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, is, value)?;
        rules.entry(call).or_default().push(SeccompRule::new(vec![condition])?);
    }
    let known = SeccompFilter::new(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow, arch)?;
    Ok([newer.try_into()?, known.try_into()?])
}
