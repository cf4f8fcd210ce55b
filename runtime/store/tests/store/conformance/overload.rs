//! More at once than the engine can hold.

use std::time::Duration;

use tokio::task::JoinSet;
use windlass_core::State;
use windlass_store::{Error, limits};

use super::test_store::{TestStore, job};

#[tokio::test]
async fn what_is_too_much_at_once_is_refused_and_nothing_of_it_is_done() {
    let test = TestStore::new();
    let mut callers = JoinSet::new();
    for _ in 0..4 * limits::COMMANDS {
        let store = test.store.clone();
        callers.spawn(async move { store.enqueue(vec![job("mail")]).await });
    }
    let (mut stored, mut refused) = (0, 0);
    while let Some(answer) = callers.join_next().await {
        match answer.expect("no panic") {
            Ok(_) => stored += 1,
            Err(Error::Overloaded { retry_after }) => {
                assert!(retry_after > Duration::ZERO);
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 0, "all {stored} were taken: the engine holds no more than {}", limits::COMMANDS);
    assert_eq!(test.count("mail", State::Pending).await, stored);
}
