//! The state of the dashboard, and how keys change it. It draws nothing and sends no requests.

use serde_json::Value;

/// The server's state at one moment.
#[derive(Default)]
pub struct Snapshot {
    pub version: String,
    /// Whether the whole server is paused.
    pub paused: bool,
    pub stats: Value,
    pub queues: Vec<Value>,
    pub jobs: Vec<Value>,
    pub workers: Vec<Value>,
    pub plugins: Vec<Value>,
}

/// What can be sorted by: the heading, and the field.
pub const SORTS: [(&str, &str); 6] = [
    ("name", "name"),
    ("pending", "pending"),
    ("active", "active"),
    ("in/s", "enqueued_per_second"),
    ("done/s", "completed_per_second"),
    ("dead", "dead"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Quit,
    Sort,
    Pause,
    Up,
    Down,
}

pub struct View {
    pub now: Snapshot,
    pub sort: usize,
    /// The selected queue, by name: it stays selected when the order changes.
    pub selected: Option<String>,
    /// Why the last update failed.
    pub trouble: Option<String>,
}

impl Snapshot {
    pub fn read(value: &Value) -> Snapshot {
        let list = |field: &str| value[field].as_array().cloned().unwrap_or_default();
        Snapshot {
            version: value["server_version"].as_str().unwrap_or_default().to_owned(),
            paused: value["paused"] == true,
            stats: value["stats"].clone(),
            queues: list("queues"),
            jobs: list("jobs"),
            workers: list("workers"),
            plugins: list("plugins"),
        }
    }
}

impl View {
    pub fn new(now: Snapshot) -> View {
        let mut view = View { now: Snapshot::default(), sort: 1, selected: None, trouble: None };
        view.take(now);
        view
    }

    pub fn take(&mut self, now: Snapshot) {
        self.now = now;
        self.trouble = None;
        self.order();
    }

    /// The position of the selected queue in the list.
    pub fn place(&self) -> Option<usize> {
        let selected = self.selected.as_deref()?;
        self.now.queues.iter().position(|queue| queue["name"] == selected)
    }

    /// Returns the queue to pause (true) or to resume.
    pub fn press(&mut self, key: Key) -> Option<(String, bool)> {
        match key {
            Key::Quit => {}
            Key::Sort => {
                self.sort = (self.sort + 1) % SORTS.len();
                self.order();
            }
            Key::Up | Key::Down => {
                let last = self.now.queues.len().checked_sub(1)?;
                let place = self.place().unwrap_or(0);
                let place = if key == Key::Up { place.saturating_sub(1) } else { (place + 1).min(last) };
                self.selected = self.now.queues[place]["name"].as_str().map(str::to_owned);
            }
            Key::Pause => {
                let place = self.place()?;
                let queue = self.now.queues.get_mut(place)?;
                let paused = !queue["paused"].as_bool().unwrap_or(false);
                // Shown immediately; the next update has the server's actual state.
                queue["paused"] = Value::from(paused);
                return Some((queue["name"].as_str()?.to_owned(), paused));
            }
        }
        None
    }

    fn order(&mut self) {
        let (_, field) = SORTS[self.sort];
        let number = |queue: &Value| queue[field].as_f64().unwrap_or(0.0);
        let name = |queue: &Value| queue["name"].as_str().unwrap_or_default().to_owned();
        // Largest first; names in alphabetical order.
        self.now.queues.sort_by(|a, b| number(b).total_cmp(&number(a)).then_with(|| name(a).cmp(&name(b))));
        if self.place().is_none() {
            self.selected = self.now.queues.first().map(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    pub fn two() -> Snapshot {
        Snapshot::read(&json!({
            "server_version": "0.1.0",
            "queues": [
                {"name": "mail", "pending": 2, "active": 1, "dead": 9, "paused": false, "completed_per_second": 2.5},
                {"name": "images", "pending": 40, "active": 0, "dead": 0, "paused": true},
            ],
        }))
    }

    fn names(view: &View) -> Vec<&str> {
        view.now.queues.iter().filter_map(|queue| queue["name"].as_str()).collect()
    }

    #[test]
    fn the_selected_queue_stays_selected_when_the_order_changes() {
        let mut view = View::new(two());
        assert_eq!((names(&view), view.place()), (vec!["images", "mail"], Some(0)));
        view.press(Key::Down);
        assert_eq!(view.selected.as_deref(), Some("mail"));
        view.press(Key::Sort);
        assert_eq!((names(&view), view.place()), (vec!["mail", "images"], Some(0)), "by active");
        view.take(two());
        assert_eq!(view.selected.as_deref(), Some("mail"));
    }

    #[test]
    fn pausing_is_requested_and_shown_immediately() {
        let mut view = View::new(two());
        assert_eq!(view.press(Key::Pause), Some(("images".to_owned(), false)), "it was paused");
        view.press(Key::Down);
        assert_eq!(view.press(Key::Pause), Some(("mail".to_owned(), true)));
        assert_eq!(view.now.queues[1]["paused"], true);
    }

    #[test]
    fn an_empty_server_handles_every_key() {
        let mut view = View::new(Snapshot::default());
        for key in [Key::Up, Key::Down, Key::Sort, Key::Pause] {
            assert_eq!(view.press(key), None);
        }
    }
}
