//! What a handler can rely on, tried against the fake server.

use std::time::Duration;

use windlass::testing::Fake;
use windlass::{Child, ChildState, Context, Error, Level, OnFailure, Reason, Result};

/// Adds the numbers up, one per step.
fn sum(ctx: &mut Context, numbers: Vec<u64>) -> Result<u64> {
    let (mut next, mut total) = ctx.state::<(usize, u64)>()?.unwrap_or((0, 0));
    while let Some(number) = numbers.get(next) {
        ctx.check_cancelled()?;
        total += number;
        next += 1;
        ctx.progress(next as u64, numbers.len() as u64, "adding");
        ctx.checkpoint(&(next, total))?;
    }
    Ok(total)
}

#[test]
fn a_handler_gets_its_payload_and_gives_its_result() {
    let mut fake = Fake::new();
    assert_eq!(fake.run(sum, &[1, 2, 3]), Ok(6));
    assert_eq!((fake.progress().len(), fake.saves()), (3, 3));
}

#[test]
fn the_next_attempt_resumes_from_the_last_checkpoint() {
    let mut fake = Fake::new();
    fake.fail_checkpoints_after(2);
    assert!(fake.run(sum, &[1, 2, 3, 4]).is_err());
    fake.resume();
    assert_eq!(fake.run(sum, &[1, 2, 3, 4]), Ok(10));
    assert_eq!(fake.saves(), 4, "no step was saved twice");
}

#[test]
fn a_cancelled_handler_returns_the_cancel_error() {
    let mut fake = Fake::new();
    fake.cancel_after(2, Reason::Shutdown);
    let error = fake.run(sum, &[1, 2, 3, 4]).expect_err("it was asked to stop");
    assert!(error.is_cancelled());
    assert_eq!(error.message(), "stopped on request: shutdown");
    assert_eq!(fake.state::<(usize, u64)>(), Ok(Some((2, 3))));
}

#[test]
fn a_payload_of_another_shape_is_fatal() {
    let error = Fake::new().run_raw(sum, "not json").expect_err("it does not parse");
    assert!(error.is_fatal(), "{error}");
}

#[test]
fn state_of_another_schema_is_refused() {
    fn old(ctx: &mut Context, _: ()) -> Result<()> {
        ctx.checkpoint(&1)?;
        Err(Error::new("crash"))
    }
    fn new(ctx: &mut Context, _: ()) -> Result<Option<u8>> {
        ctx.set_schema(2);
        ctx.state()
    }
    let mut fake = Fake::new();
    fake.run(old, &()).expect_err("it crashes");
    let error = fake.run(new, &()).expect_err("it does not read schema 1");
    assert_eq!(error.message(), "the saved state has schema 1, and this handler reads 2");
}

#[test]
fn children_commit_with_a_checkpoint_or_the_result_and_never_twice() {
    fn parent(ctx: &mut Context, fail: bool) -> Result<u32> {
        if ctx.state::<u8>()?.is_none() {
            ctx.spawn(Child::new("first", &1)?)?;
            ctx.checkpoint(&1)?;
        }
        let ordinal = ctx.spawn(Child::new("second", &2)?.delay(Duration::from_secs(1)).tag("kind", "late"))?;
        if fail { Err(Error::new("crash")) } else { Ok(ordinal) }
    }
    let mut fake = Fake::new();
    fake.run(parent, &true).expect_err("it crashes");
    assert_eq!(fake.run(parent, &false), Ok(1));
    let queues: Vec<String> = fake.children().into_iter().map(|child| child.queue).collect();
    assert_eq!(queues, ["first", "second"]);
}

/// Doubles each number in a child of its own, and adds up their results.
fn double_all(ctx: &mut Context, numbers: Vec<u64>) -> Result<u64> {
    let Some(_) = ctx.joined() else {
        for number in &numbers {
            ctx.spawn(Child::new("double", number)?)?;
        }
        return ctx.wait_for_children(OnFailure::Continue, &numbers.len());
    };
    assert_eq!(ctx.state::<usize>()?, Some(numbers.len()), "the state that the wait saved");
    let mut sum = 0;
    for child in ctx.children() {
        let child = child?;
        ctx.progress(u64::from(child.ordinal) + 1, numbers.len() as u64, "adding up");
        if child.state == ChildState::Completed {
            sum += child.result::<u64>()?;
        }
    }
    Ok(sum)
}

#[test]
fn a_parent_waits_for_its_children_and_reads_their_results() {
    let mut fake = Fake::new();
    let error = fake.run(double_all, &[1, 2, 3]).expect_err("it waits");
    assert!(error.is_waiting(), "{error}");
    assert_eq!(fake.children().len(), 3, "they are committed with the wait");
    assert!(fake.run(double_all, &[1, 2, 3]).expect_err("too early").message().contains("child 0 has not ended"));
    for (ordinal, result) in [(0, 2), (1, 4), (2, 6)] {
        fake.child_completed(ordinal, &result).expect("a number");
    }
    assert_eq!(fake.run(double_all, &[1, 2, 3]), Ok(12));
    assert_eq!(fake.progress().len(), 3);
}

#[test]
fn a_child_that_died_is_seen_or_takes_its_parent_along() {
    let mut fake = Fake::new();
    fake.run(double_all, &[1, 2]).expect_err("it waits");
    fake.child_completed(0, &2).expect("a number");
    fake.child_died(1, "boom");
    assert_eq!(fake.run(double_all, &[1, 2]), Ok(2));

    fn strict(ctx: &mut Context, _: ()) -> Result<u64> {
        ctx.spawn(Child::new("double", &1)?)?;
        ctx.wait_for_children(OnFailure::Fail, &())
    }
    let mut fake = Fake::new();
    fake.run(strict, &()).expect_err("it waits");
    fake.child_died(0, "boom");
    assert_eq!(fake.run(strict, &()).expect_err("it is not run").message(), "a child failed");
}

#[test]
fn an_error_after_a_wait_counts_and_nothing_waits() {
    fn torn(ctx: &mut Context, _: ()) -> Result<()> {
        ctx.spawn(Child::new("double", &1)?)?;
        let _: Result<()> = ctx.wait_for_children(OnFailure::Fail, &1);
        Err(Error::new("no after all"))
    }
    let mut fake = Fake::new();
    assert!(!fake.run(torn, &()).expect_err("it fails").is_waiting());
    assert!(fake.children().is_empty());
    assert_eq!(fake.state::<u8>(), Ok(None));
}

#[test]
fn a_large_result_is_read_by_itself() {
    fn length(ctx: &mut Context, _: ()) -> Result<usize> {
        if ctx.joined().is_none() {
            ctx.spawn(Child::new("large", &1)?)?;
            return ctx.wait_for_children(OnFailure::Fail, &());
        }
        let child = ctx.children().next().ok_or_else(|| Error::new("no child"))??;
        Ok(child.result::<String>()?.len())
    }
    let mut fake = Fake::new();
    fake.run(length, &()).expect_err("it waits");
    fake.child_completed(0, &"x".repeat(100_000)).expect("a text");
    assert_eq!(fake.run(length, &()), Ok(100_000));
}

#[test]
fn records_commit_with_a_checkpoint_or_the_result_and_others_read_and_mark_them() {
    fn compare(ctx: &mut Context, fail: bool) -> Result<bool> {
        let ours = ctx.job().attempt;
        ctx.put_record("a/b", &ours)?;
        let theirs = ctx.get_record::<u32>("src", "a/b")?.ok_or_else(|| Error::new("nothing there"))?;
        ctx.mark("src", "a/b", Some("newer"))?;
        if fail { Err(Error::new("crash")) } else { Ok(theirs.value == 7 && ctx.job().round == Some(3)) }
    }
    let mut fake = Fake::new().queue("dst").round(3);
    assert_eq!(fake.run(compare, &true).expect_err("nothing there").message(), "nothing there");
    fake.put_record("src", "a/b", &7).expect("a number");
    fake.run(compare, &true).expect_err("it crashes");
    assert_eq!(fake.get_record::<u32>("dst", "a/b"), Ok(None), "what a failed attempt noted never was");
    assert_eq!(fake.run(compare, &false), Ok(true));
    assert_eq!(fake.get_record::<u32>("dst", "a/b").map(|found| found.map(|found| found.value)), Ok(Some(3)));
    let marked = fake.get_record::<u32>("src", "a/b").expect("a number").expect("a record");
    assert_eq!(marked.mark.as_deref(), Some("newer"));
}

#[test]
fn config_secrets_and_log_reach_the_server() {
    fn greet(ctx: &mut Context, _: ()) -> Result<String> {
        let greeting = ctx.config("greeting").unwrap_or_default();
        ctx.log(Level::Warn, "about to greet");
        Ok(format!("{greeting}, {}", ctx.secret("name")?))
    }
    let mut fake = Fake::new().config("greeting", "hello").secret("name", "you");
    assert_eq!(fake.run(greet, &()), Ok("hello, you".to_owned()));
    assert_eq!(fake.log(), [(Level::Warn, "about to greet".to_owned())]);
    let error = Fake::new().run(greet, &()).expect_err("nothing is granted");
    assert!(error.message().contains("`name`"), "{error}");
}

#[test]
fn a_checkpoint_every_so_often_is_saved_when_its_time_has_come() {
    fn often(ctx: &mut Context, period_ms: u64) -> Result<bool> {
        ctx.checkpoint_every(Duration::from_millis(period_ms), &1)
    }
    assert_eq!(Fake::new().run(often, &3_600_000), Ok(false));
    assert_eq!(Fake::new().run(often, &0), Ok(true));
}

mod two_queues {
    use super::*;

    fn shout(_: &mut Context, text: String) -> Result<String> {
        Ok(text.to_uppercase())
    }

    fn reverse(ctx: &mut Context) -> Result<Vec<u8>> {
        Ok(ctx.job().payload.iter().rev().copied().collect())
    }

    windlass::handlers! {
        "shout" => shout,
        "reverse" | "backwards" => windlass::raw(reverse),
    }

    #[test]
    fn the_queue_chooses_the_handler() {
        let run =
            |queue: &str, payload: &str| Fake::new().queue(queue).run_raw(windlass::raw(windlass_dispatch), payload);
        assert_eq!(run("shout", "\"hey\""), Ok(b"\"HEY\"".to_vec()));
        assert_eq!(run("backwards", "abc"), Ok(b"cba".to_vec()));
        let error = run("other", "").expect_err("nobody serves it");
        assert_eq!(error.message(), "this plugin has no handler for the queue `other`");
    }
}
