//! Who runs the jobs of a queue, as far as this server knows. Responses to enqueues say it, so that a producer notices
//! a job that nothing will run.

use std::collections::BTreeMap;

use windlass_core::QueueName;
use windlass_store::Clock;

use crate::http::Api;
use crate::limits;

/// The `served_by` of a queue that external workers fetch from.
const WORKERS: &str = "workers";

/// The plugin that serves the queue, `workers`, or `None`.
pub fn served_by(api: &Api, queue: &QueueName) -> Option<String> {
    let queue = &api.own(queue.clone());
    let plugin = api.registry.served_by(queue).map(|plugin| plugin.to_string());
    plugin.or_else(|| api.workers.serve(queue, api.clock.now()).then(|| WORKERS.to_owned()))
}

/// The warning for a producer whose queue is not served.
pub fn warning(queue: &QueueName) -> String {
    let minutes = limits::WORKER_SEEN.as_secs() / 60;
    format!(
        "no plugin serves queue `{queue}`, and no worker has fetched from it in the last {minutes} minutes: the job waits until one does"
    )
}

/// The same for the queues of many jobs. The first few are named, the rest are counted.
pub fn warnings(served_by: &BTreeMap<QueueName, Option<String>>) -> Vec<String> {
    let unserved = || served_by.iter().filter(|(_, server)| server.is_none()).map(|(queue, _)| queue);
    let mut warnings: Vec<String> = unserved().take(limits::UNSERVED_NAMED).map(warning).collect();
    let more = unserved().count() - warnings.len();
    if more > 0 {
        warnings.push(format!("{more} more queues of this request are not served yet; `served_by` lists them"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_that_are_not_served_are_named_up_to_a_number_and_then_counted() {
        let name = |text: &str| text.parse::<QueueName>().expect("a name");
        let two = BTreeMap::from([(name("a"), Some("plugin".to_owned())), (name("b"), None)]);
        let found = warnings(&two);
        assert!(found.len() == 1 && found[0].contains("queue `b`"), "{found:?}");
        let many = (0..limits::UNSERVED_NAMED + 3).map(|n| (name(&format!("q{n}")), None)).collect();
        let found = warnings(&many);
        assert_eq!(found.len(), limits::UNSERVED_NAMED + 1);
        assert!(found[limits::UNSERVED_NAMED].starts_with("3 more"), "{found:?}");
    }
}
