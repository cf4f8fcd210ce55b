//! Attempts that compute for long are moved to threads of their own, behind everything else.
//!
//! An attempt begins among the young: threads of the lowest usual priority, where one that needs a millisecond finds a place at
//! once. What has used more processor time than [`YOUNG`](crate::limits::YOUNG) goes on among the elders, from which the system
//! takes the processor the moment anybody else wakes up. The executor calls this; the guest notices nothing.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::attempt::meter::CpuMeter;
use crate::limits::YOUNG;

/// An attempt among the young.
pub(crate) struct Young<F> {
    attempt: Option<Pin<Box<F>>>,
    cpu: Arc<CpuMeter>,
}

/// How its youth ended.
pub(crate) enum Grown<F: Future> {
    Ended(F::Output),
    /// It has computed for long and is to be polled elsewhere from now on.
    Elder(Pin<Box<F>>),
}

impl<F: Future> Young<F> {
    pub(crate) fn new(attempt: F, cpu: Arc<CpuMeter>) -> Self {
        Young { attempt: Some(Box::pin(attempt)), cpu }
    }
}

impl<F: Future> Future for Young<F> {
    type Output = Grown<F>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Grown<F>> {
        let mut attempt = self.attempt.take().expect("a future is not polled after its end");
        if let Poll::Ready(ended) = attempt.as_mut().poll(context) {
            return Poll::Ready(Grown::Ended(ended));
        }
        if self.cpu.used() > YOUNG {
            return Poll::Ready(Grown::Elder(attempt));
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
    async fn what_computes_for_long_moves_and_goes_on_where_it_was() {
        let cpu = Arc::new(CpuMeter::default());
        let mut rounds = 0;
        let meter = Arc::clone(&cpu);
        let attempt = std::future::poll_fn(move |context| {
            meter.charge(|| (0..5_000u64).for_each(|n| _ = black_box(n)));
            rounds += 1;
            context.waker().wake_by_ref();
            if meter.used() > YOUNG * 2 { Poll::Ready(rounds) } else { Poll::Pending }
        });
        let Grown::Elder(attempt) = Young::new(attempt, Arc::clone(&cpu)).await else { panic!("it stayed young") };
        assert!(cpu.used() > YOUNG && cpu.used() < YOUNG * 2);
        assert!(attempt.await > 1);
    }

    #[tokio::test]
    async fn what_is_quick_never_moves() {
        assert!(matches!(Young::new(async { 7 }, Arc::default()).await, Grown::Ended(7)));
    }
}
