//! Moves attempts that compute for long to separate threads, which run only when nothing else wants to.
//!
//! An attempt starts on threads of the lowest normal priority, where one that needs a millisecond runs without delay.
//! Once it has used more processor time than [`DEMOTE_AFTER`](crate::limits::DEMOTE_AFTER), it continues on threads
//! that the system preempts as soon as any other thread wakes up. The executor calls this; the guest does not notice.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::attempt::meter::CpuMeter;
use crate::limits::DEMOTE_AFTER;

/// An attempt on the threads for short ones.
pub(crate) struct Demotable<F> {
    attempt: Option<Pin<Box<F>>>,
    cpu: Arc<CpuMeter>,
}

/// Why an attempt is no longer polled there.
pub(crate) enum Demotion<F: Future> {
    Ended(F::Output),
    /// It has computed for long and must be polled elsewhere from now on.
    Demoted(Pin<Box<F>>),
}

impl<F: Future> Demotable<F> {
    pub(crate) fn new(attempt: F, cpu: Arc<CpuMeter>) -> Self {
        Demotable { attempt: Some(Box::pin(attempt)), cpu }
    }
}

impl<F: Future> Future for Demotable<F> {
    type Output = Demotion<F>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Demotion<F>> {
        let mut attempt = self.attempt.take().expect("a future is not polled after its end");
        if let Poll::Ready(ended) = attempt.as_mut().poll(context) {
            return Poll::Ready(Demotion::Ended(ended));
        }
        if self.cpu.used() > DEMOTE_AFTER {
            return Poll::Ready(Demotion::Demoted(attempt));
        }
        self.attempt = Some(attempt);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[tokio::test]
    async fn an_attempt_that_computes_for_long_is_demoted_and_continues() {
        let cpu = Arc::new(CpuMeter::default());
        let mut polls = 0;
        let meter = Arc::clone(&cpu);
        let attempt = std::future::poll_fn(move |context| {
            meter.charge(|| (0..5_000u64).for_each(|n| _ = black_box(n)));
            polls += 1;
            context.waker().wake_by_ref();
            if meter.used() > DEMOTE_AFTER * 2 { Poll::Ready(polls) } else { Poll::Pending }
        });
        let Demotion::Demoted(attempt) = Demotable::new(attempt, Arc::clone(&cpu)).await else {
            panic!("it was not demoted")
        };
        assert!(cpu.used() > DEMOTE_AFTER && cpu.used() < DEMOTE_AFTER * 2);
        assert!(attempt.await > 1);
    }

    #[tokio::test]
    async fn a_quick_attempt_is_not_demoted() {
        assert!(matches!(Demotable::new(async { 7 }, Arc::default()).await, Demotion::Ended(7)));
    }
}
