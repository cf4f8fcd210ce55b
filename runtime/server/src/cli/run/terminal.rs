//! Shows the guest's output on the terminal, without its secrets, and stores its checkpoints in memory or in a file.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use windlass_core::{JobId, Name, NewMark, NewRecord, Notes, Progress, QueueName, Record, Time, Usage};
use windlass_executor::{Child, GuestLogLine, Host, HostError, SavedState, Stream, Uncommitted, async_trait};

use crate::cli::jobs::watch::{Screen, log_line};
use crate::cli::run::shown;
use crate::cli::run::state::{SavedRun, StateFile};
use crate::dispatcher::Redactor;

pub struct Terminal {
    json: bool,
    job: JobId,
    /// The queue of the job, under which its records are stored.
    queue: QueueName,
    redactor: Redactor,
    screen: Mutex<Screen>,
    saves: Mutex<Saves>,
}

struct Saves {
    file: Option<StateFile>,
    saved_run: SavedRun,
    /// The records of this run, by queue and key.
    records: BTreeMap<(QueueName, String), Record>,
    /// Children that were committed with a checkpoint.
    children: Vec<Child>,
}

impl Terminal {
    pub fn new(json: bool, job: JobId, queue: QueueName, redactor: Redactor, file: Option<StateFile>) -> Terminal {
        let mut saved_run = file.as_ref().map_or_else(SavedRun::default, |file| file.saved_run.clone());
        saved_run.attempts += 1;
        let saves = Mutex::new(Saves { file, saved_run, children: Vec::new(), records: BTreeMap::new() });
        Terminal { json, job, queue, redactor, screen: Mutex::new(Screen::new(json)), saves }
    }

    pub fn saved(&self) -> Option<SavedState> {
        self.saves().saved_run.checkpoint()
    }

    /// Counted from 1.
    pub fn attempt(&self) -> u32 {
        self.saves().saved_run.attempts
    }

    pub fn children_committed(&self) -> u32 {
        self.saves().saved_run.children
    }

    pub fn children(&self) -> Vec<Child> {
        self.saves().children.clone()
    }

    /// Stores records and marks, as the store would with a result or a checkpoint.
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

    /// All records, for the report at the end of the run.
    pub fn records(&self) -> Value {
        let saves = self.saves();
        let shown = |((_, key), record): (&(QueueName, String), &Record)| json!({"key": key, "value": shown(record.value.clone().into(), self), "mark": record.mark});
        saves.records.iter().map(shown).collect()
    }

    /// Removes the state, because a completed job does not resume.
    pub fn completed(&self) -> std::io::Result<()> {
        self.saves().file.as_ref().map_or(Ok(()), StateFile::remove)
    }

    /// The job waits for its children; the next run resumes from here.
    pub fn waits(&self, checkpoint: Option<SavedState>, children: usize) -> std::io::Result<()> {
        let mut saves = self.saves();
        let children = u32::try_from(children).unwrap_or(u32::MAX);
        match &checkpoint {
            Some(checkpoint) => saves.saved_run.save(checkpoint, children),
            None => saves.saved_run.children += children,
        }
        let saved_run = saves.saved_run.clone();
        let Some(file) = saves.file.as_mut() else { return Ok(()) };
        file.saved_run = saved_run;
        file.write()
    }

    pub fn clean(&self, text: String) -> String {
        self.redactor.clean(text)
    }

    /// Prints a message of the command itself.
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

    fn log(&self, line: GuestLogLine) {
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
        self.save(&checkpoint, children)?;
        self.note(notes);
        Ok(())
    }

    async fn record(&self, queue: &str, key: &str) -> Result<Option<Record>, HostError> {
        let Ok(queue) = Name::parse("queue", queue) else { return Ok(None) };
        Ok(self.saves().records.get(&(queue, key.to_owned())).cloned())
    }
}

impl Terminal {
    fn save(&self, checkpoint: &SavedState, children: Vec<Child>) -> Result<(), HostError> {
        let mut saves = self.saves();
        let before = saves.saved_run.clone();
        saves.saved_run.save(checkpoint, u32::try_from(children.len()).unwrap_or(u32::MAX));
        let saved_run = saves.saved_run.clone();
        if let Some(file) = saves.file.as_mut() {
            file.saved_run = saved_run;
            if let Err(error) = file.write() {
                saves.saved_run = before;
                return Err(HostError::Unavailable(format!("the state file cannot be written: {error}")));
            }
        }
        saves.children.extend(children);
        Ok(())
    }
}
