//! What the guest says, on the terminal, without its secrets; and its checkpoints, in memory or in a file.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use windlass_core::{JobId, Name, NewMark, NewRecord, Notes, Progress, QueueName, Record, Time, Usage};
use windlass_executor::{Child, Host, HostError, LogLine, SavedState, Stream, Uncommitted, async_trait};

use crate::cli::jobs::watch::{Screen, log_line};
use crate::cli::run::shown;
use crate::cli::run::state::{Kept, StateFile};
use crate::dispatcher::Redactor;

pub struct Terminal {
    json: bool,
    job: JobId,
    /// The job's own, which its records are under.
    queue: QueueName,
    redactor: Redactor,
    screen: Mutex<Screen>,
    saves: Mutex<Saves>,
}

struct Saves {
    file: Option<StateFile>,
    kept: Kept,
    /// What was recorded in this run, by queue and key.
    records: BTreeMap<(QueueName, String), Record>,
    /// Children that went with a checkpoint.
    children: Vec<Child>,
}

impl Terminal {
    pub fn new(json: bool, job: JobId, queue: QueueName, redactor: Redactor, file: Option<StateFile>) -> Terminal {
        let mut kept = file.as_ref().map_or_else(Kept::default, |file| file.kept.clone());
        kept.attempts += 1;
        let saves = Mutex::new(Saves { file, kept, children: Vec::new(), records: BTreeMap::new() });
        Terminal { json, job, queue, redactor, screen: Mutex::new(Screen::new(json)), saves }
    }

    pub fn saved(&self) -> Option<SavedState> {
        self.saves().kept.checkpoint()
    }

    /// Counted from 1.
    pub fn attempt(&self) -> u32 {
        self.saves().kept.attempts
    }

    pub fn children_committed(&self) -> u32 {
        self.saves().kept.children
    }

    pub fn children(&self) -> Vec<Child> {
        self.saves().children.clone()
    }

    /// Keeps what was noted, as the store would with a result or a checkpoint.
    pub fn note(&self, notes: Notes) {
        let records = &mut self.saves().records;
        for NewRecord { key, value } in notes.records {
            let (queue, job, updated_at) = (self.queue.clone(), self.job, Time::default());
            let record = Record { queue: queue.clone(), key: key.clone(), value, mark: None, job, updated_at };
            records.insert((queue, key), record);
        }
        for NewMark { queue, key, mark } in notes.marks {
            if let Some(record) = records.get_mut(&(queue, key)) {
                record.mark = mark;
            }
        }
    }

    /// All that was recorded, for whoever reads the end of the run.
    pub fn records(&self) -> Value {
        let saves = self.saves();
        let shown = |((_, key), record): (&(QueueName, String), &Record)| json!({"key": key, "value": shown(record.value.clone().into(), self), "mark": record.mark});
        saves.records.iter().map(shown).collect()
    }

    /// Nothing is left to go on from.
    pub fn completed(&self) -> std::io::Result<()> {
        self.saves().file.as_ref().map_or(Ok(()), StateFile::remove)
    }

    /// The job waits for its children: the next run goes on from here.
    pub fn waits(&self, checkpoint: Option<SavedState>, children: usize) -> std::io::Result<()> {
        let mut saves = self.saves();
        let children = u32::try_from(children).unwrap_or(u32::MAX);
        match &checkpoint {
            Some(checkpoint) => saves.kept.save(checkpoint, children),
            None => saves.kept.children += children,
        }
        let kept = saves.kept.clone();
        let Some(file) = saves.file.as_mut() else { return Ok(()) };
        file.kept = kept;
        file.write()
    }

    pub fn clean(&self, text: String) -> String {
        self.redactor.clean(text)
    }

    /// A message of our own.
    pub fn say(&self, text: &str) {
        self.screen().say(text.to_owned());
    }

    pub fn finish(&self) {
        self.screen().clear();
    }

    fn screen(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn saves(&self) -> MutexGuard<'_, Saves> {
        self.saves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Host for Terminal {
    fn progress(&self, progress: Progress) {
        if self.json {
            return;
        }
        let clean = |text: Option<String>| text.map(|text| self.clean(text));
        let mut data = json!({"phase": clean(progress.phase), "message": clean(progress.message)});
        if let Some(percent) = progress.percent {
            data["percent"] = json!(percent);
        }
        if let Some(current) = progress.current {
            data["current"] = json!(current);
            data["total"] = json!(progress.total);
        }
        self.screen().progress(&data);
    }

    fn log(&self, line: LogLine) {
        let level = match line.stream {
            Stream::Log => line.level.as_str(),
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        let text = self.clean(line.message) + if line.cut { " [cut]" } else { "" };
        self.screen().say(log_line(&json!({"level": level, "text": text})));
    }

    async fn checkpoint(
        &self,
        checkpoint: SavedState,
        uncommitted: Uncommitted,
        _used: Usage,
    ) -> Result<(), HostError> {
        let Uncommitted { children, notes } = uncommitted;
        self.keep(&checkpoint, children)?;
        self.note(notes);
        Ok(())
    }

    async fn record(&self, queue: &str, key: &str) -> Result<Option<Record>, HostError> {
        let Ok(queue) = Name::parse("queue", queue) else { return Ok(None) };
        Ok(self.saves().records.get(&(queue, key.to_owned())).cloned())
    }
}

impl Terminal {
    fn keep(&self, checkpoint: &SavedState, children: Vec<Child>) -> Result<(), HostError> {
        let mut saves = self.saves();
        let before = saves.kept.clone();
        saves.kept.save(checkpoint, u32::try_from(children.len()).unwrap_or(u32::MAX));
        let kept = saves.kept.clone();
        if let Some(file) = saves.file.as_mut() {
            file.kept = kept;
            if let Err(error) = file.write() {
                saves.kept = before;
                return Err(HostError::Unavailable(format!("the state file cannot be written: {error}")));
            }
        }
        saves.children.extend(children);
        Ok(())
    }
}
