use windlass::testing::Fake;
use {{ident}}::{Order, Outcome, count};

#[test]
fn it_counts() {
    assert_eq!(Fake::new().run(count, &Order { steps: 4 }), Ok(Outcome { sum: 10 }));
}

#[test]
fn a_second_attempt_resumes_where_the_first_stopped() {
    let mut fake = Fake::new();
    fake.fail_checkpoints_after(2);
    fake.run(count, &Order { steps: 4 }).expect_err("the third checkpoint fails");
    fake.resume();
    assert_eq!(fake.run(count, &Order { steps: 4 }), Ok(Outcome { sum: 10 }));
    assert_eq!(fake.progress().len(), 3 + 2);
}
