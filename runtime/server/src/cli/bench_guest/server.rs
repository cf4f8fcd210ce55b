//! A server to be measured: this program, started again, and a client of it.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, anyhow, bail};
use serde_json::{Value, json};

use crate::cli::bench_guest::Setting;

pub struct Server {
    child: Child,
    pub client: Client,
    folder: PathBuf,
}

/// Cheap to clone; each thread has one.
#[derive(Clone)]
pub struct Client {
    url: String,
    agent: ureq::Agent,
}

impl Server {
    pub fn start(setting: &Setting, name: &str) -> anyhow::Result<Server> {
        let folder = setting.dir.join(format!("windlass-bench-guest-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let stderr = child.stderr.take().ok_or_else(|| anyhow!("no pipe"))?;
        let mut lines = BufReader::new(stderr).lines();
        let found = |line: String| line.split_once("listening on ").map(|(_, url)| url.trim().to_owned());
        let url = lines.by_ref().map_while(Result::ok).find_map(found);
        let Some(url) = url else {
            let _ = child.kill();
            bail!("the server did not start");
        };
        // What it says further on is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        Ok(Server { child, client: Client { url, agent }, folder })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Client {
    pub fn upload(&self, name: &str, component: &[u8]) -> anyhow::Result<()> {
        let path = format!("{}/api/v1/plugins/{name}?queues={name}", self.url);
        let mut answer = self.agent.put(path).send(component)?;
        if !answer.status().is_success() {
            bail!("the plugin was not taken: {}", answer.body_mut().read_to_string()?);
        }
        Ok(())
    }

    pub fn healthz(&self) -> anyhow::Result<()> {
        let mut answer = self.agent.get(format!("{}/healthz", self.url)).call()?;
        answer.body_mut().read_to_string()?;
        Ok(())
    }

    pub fn enqueue(&self, queue: &str, payload: &Value) -> anyhow::Result<String> {
        let answer = self.post("/enqueue", &json!({"queue": queue, "payload": payload, "max_retries": 1}))?;
        answer["job_id"].as_str().map(str::to_owned).with_context(|| format!("no job in {answer}"))
    }

    /// The state in which a job has ended.
    pub fn wait(&self, id: &str) -> anyhow::Result<String> {
        let job = self.get(&format!("/jobs/{id}/wait?timeout=60"))?;
        Ok(job["state"].as_str().unwrap_or_default().to_owned())
    }

    pub fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let mut answer = self.agent.post(format!("{}/api/v1{path}", self.url)).send_json(body)?;
        let told: Value = answer.body_mut().with_config().limit(64 << 20).read_json()?;
        if answer.status().is_success() { Ok(told) } else { bail!("{path}: {told}") }
    }

    pub fn get(&self, path: &str) -> anyhow::Result<Value> {
        let mut answer = self.agent.get(format!("{}/api/v1{path}", self.url)).call()?;
        let told: Value = answer.body_mut().read_json()?;
        if answer.status().is_success() { Ok(told) } else { bail!("{path}: {told}") }
    }

    /// How many jobs of a queue have completed.
    pub fn completed(&self, queue: &str) -> anyhow::Result<u64> {
        let queues = self.get("/queues")?;
        let found = queues.as_array().into_iter().flatten().find(|row| row["name"] == queue);
        Ok(found.and_then(|row| row["completed"].as_u64()).unwrap_or(0))
    }
}
