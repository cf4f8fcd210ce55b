//! The interface between a handler and whoever runs it: the server in a component, a fake in a test.

use crate::child::Child;
use crate::children::{ChildCounts, OnFailure, Page};
use crate::error::Result;
use crate::job::{Cancel, Level, Recorded};
use crate::progress::Progress;

/// One method per function that the interface imports.
pub(crate) trait Server {
    fn progress(&mut self, progress: Progress);
    fn checkpoint(&mut self, schema: u32, state: Vec<u8>) -> Result<()>;
    fn cancelled(&mut self) -> Option<Cancel>;
    fn log(&mut self, level: Level, message: &str);
    fn spawn(&mut self, child: Child) -> Result<u32>;
    fn joined(&mut self) -> Option<ChildCounts>;
    /// A page of the children from this ordinal on.
    fn children(&mut self, start: u32) -> Result<Page>;
    fn child_result(&mut self, ordinal: u32) -> Result<Option<Vec<u8>>>;
    fn wait(&mut self, on_failure: OnFailure, state: Option<(u32, Vec<u8>)>) -> Result<()>;
    fn put_record(&mut self, key: &str, value: Vec<u8>) -> Result<()>;
    fn get_record(&mut self, queue: &str, key: &str) -> Result<Option<Recorded<Vec<u8>>>>;
    fn mark(&mut self, queue: &str, key: &str, mark: Option<&str>) -> Result<()>;
    fn config(&mut self, name: &str) -> Option<String>;
    fn secret(&mut self, name: &str) -> Result<String>;
    /// Another handle to the same server, for what outlives a borrow of the context.
    fn link(&self) -> Box<dyn Server>;
}
