//! Who runs the jobs of a queue, as far as this server knows: answers to enqueues tell it, so that nobody waits for a job that
//! nothing will take.

use std::collections::BTreeMap;

use windlass_core::QueueName;
use windlass_store::Clock;

use crate::http::Api;
use crate::limits;

/// The `served_by` of a queue that external workers fetch from.
const WORKERS: &str = "workers";

/// The plugin that serves the queue, or `workers`, or nobody.
pub fn served_by(api: &Api, queue: &QueueName) -> Option<String> {
    let plugin = api.registry.served_by(queue);
    plugin.or_else(|| api.workers.serve(queue, api.clock.now()).then(|| WORKERS.to_owned()))
}

/// The warning for a producer whose queue nobody serves.
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
    fn queues_without_a_server_are_named_and_above_a_number_counted() {
        let name = |text: &str| text.parse::<QueueName>().expect("a name");
        let two = BTreeMap::from([(name("a"), Some("plugin".to_owned())), (name("b"), None)]);
        let told = warnings(&two);
        assert!(told.len() == 1 && told[0].contains("queue `b`"), "{told:?}");
        let many = (0..limits::UNSERVED_NAMED + 3).map(|n| (name(&format!("q{n}")), None)).collect();
        let told = warnings(&many);
        assert_eq!(told.len(), limits::UNSERVED_NAMED + 1);
        assert!(told[limits::UNSERVED_NAMED].starts_with("3 more"), "{told:?}");
    }
}
