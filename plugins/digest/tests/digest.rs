//! The handler against the fake server: natively, without wasm.

use digest::{Order, Share, digest};
use windlass::Reason;
use windlass::testing::Fake;

fn order() -> Order {
    Order { generate_mb: Some(1), seed: 7, step_kb: Some(128), ..Order::default() }
}

#[test]
fn given_text_is_hashed_and_counted() {
    let summary = Fake::new()
        .run(digest, &Order { text: Some("to be or\nnot to be\n".to_owned()), ..Order::default() })
        .expect("plain text");
    assert_eq!((summary.bytes, summary.lines, summary.words, summary.steps), (19, 2, 6, 1));
    assert_eq!(summary.sha256, "680db75f15bf9fb7446d300d2f7b58f836e71f3f292c338507976568d1690c61");
}

#[test]
fn each_step_reports_and_saves() {
    let mut fake = Fake::new();
    let summary = fake.run(digest, &order()).expect("all is well");
    assert_eq!((summary.bytes, summary.steps, summary.steps_run), (1 << 20, 8, 8));
    assert_eq!((fake.progress().len(), fake.saves()), (8, 8));
}

#[test]
fn the_size_of_a_step_does_not_change_the_digest() {
    let small = Fake::new().run(digest, &order()).expect("all is well");
    let large = Fake::new().run(digest, &Order { step_kb: Some(999), ..order() }).expect("all is well");
    assert_eq!((small.sha256, small.words), (large.sha256, large.words));
}

#[test]
fn a_later_attempt_goes_on_in_the_middle_of_the_stream() {
    let whole = Fake::new().run(digest, &order()).expect("all is well");
    let mut fake = Fake::new();
    fake.fail_checkpoints_after(3);
    fake.run(digest, &order()).expect_err("the fourth checkpoint fails");
    fake.resume();
    let resumed = fake.run(digest, &order()).expect("all is well");
    assert_eq!(resumed.sha256, whole.sha256);
    assert_eq!(resumed.steps_run, 5);
    assert_eq!(
        resumed.attempts,
        [Share { attempt: 1, first_step: 1, last_step: 3 }, Share { attempt: 2, first_step: 4, last_step: 8 }]
    );
}

#[test]
fn it_saves_its_last_steps_when_it_is_asked_to_stop() {
    let mut fake = Fake::new();
    fake.cancel_after(2, Reason::User);
    let rarely = Order { checkpoint_ms: 3_600_000, ..order() };
    let error = fake.run(digest, &rarely).expect_err("it was asked to stop");
    assert!(error.is_cancelled());
    assert_eq!(fake.saves(), 1);
    fake.resume();
    let summary = fake.run(digest, &rarely).expect("all is well");
    assert_eq!(summary.steps_run, 6);
}

#[test]
fn an_order_that_makes_no_sense_is_fatal() {
    let both = Order { text: Some(String::new()), ..order() };
    let no_step = Order { step_kb: Some(0), ..order() };
    for order in [Order::default(), both, no_step] {
        let error = Fake::new().run(digest, &order).expect_err("it makes no sense");
        assert!(error.is_fatal(), "{error}");
    }
}
