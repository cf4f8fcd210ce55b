//! A server to be measured, with its own data folder, and a client for it.

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::process::Process;
use crate::setting::{Folder, Setting};

/// Its fields are dropped in order: the process ends before its folder is removed.
pub struct Server {
    _process: Process,
    _folder: Folder,
    pub client: Client,
}

/// Cheap to clone; each thread has one.
#[derive(Clone)]
pub struct Client {
    url: String,
    agent: ureq::Agent,
    /// Where its requests are made, if not in `default`.
    namespace: String,
}

impl Server {
    pub fn start(setting: &Setting, name: &str) -> anyhow::Result<Server> {
        let folder = setting.folder(&format!("guest-{name}"))?;
        let process = Process::serve(&folder.0)?;
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let client = Client { url: process.url.clone(), agent, namespace: "default".to_owned() };
        Ok(Server { _process: process, _folder: folder, client })
    }
}

/// By which an admin of all namespaces chooses one.
const NAMESPACE: &str = "x-windlass-namespace";

impl Client {
    /// A client of another namespace, which is created.
    pub fn tenant(&self, name: &str) -> anyhow::Result<Client> {
        self.post("/namespaces", &json!({"name": name}))?;
        Ok(Client { namespace: name.to_owned(), ..self.clone() })
    }

    pub fn upload(&self, name: &str, component: &[u8]) -> anyhow::Result<()> {
        let path = format!("{}/api/v1/plugins/{name}?queues={name}", self.url);
        let mut answer = self.agent.put(path).header(NAMESPACE, &self.namespace).send(component)?;
        if !answer.status().is_success() {
            bail!("the plugin was not accepted: {}", answer.body_mut().read_to_string()?);
        }
        Ok(())
    }

    pub fn healthz(&self) -> anyhow::Result<()> {
        let mut answer = self.agent.get(format!("{}/healthz", self.url)).call()?;
        answer.body_mut().read_to_string()?;
        Ok(())
    }

    pub fn enqueue(&self, queue: &str, payload: &Value) -> anyhow::Result<String> {
        let answer = self.post("/enqueue", &json!({"queue": queue, "payload": payload, "max_attempts": 1}))?;
        answer["job_id"].as_str().map(str::to_owned).with_context(|| format!("no job in {answer}"))
    }

    /// Waits for a job to end, and returns its state.
    pub fn wait(&self, id: &str) -> anyhow::Result<String> {
        let job = self.get(&format!("/jobs/{id}/wait?timeout=60"))?;
        Ok(job["state"].as_str().unwrap_or_default().to_owned())
    }

    pub fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let mut answer =
            self.agent.post(format!("{}/api/v1{path}", self.url)).header(NAMESPACE, &self.namespace).send_json(body)?;
        let body: Value = answer.body_mut().with_config().limit(64 << 20).read_json()?;
        if answer.status().is_success() { Ok(body) } else { bail!("{path}: {body}") }
    }

    pub fn get(&self, path: &str) -> anyhow::Result<Value> {
        let mut answer =
            self.agent.get(format!("{}/api/v1{path}", self.url)).header(NAMESPACE, &self.namespace).call()?;
        let body: Value = answer.body_mut().read_json()?;
        if answer.status().is_success() { Ok(body) } else { bail!("{path}: {body}") }
    }

    /// How many jobs of a queue have completed.
    pub fn completed(&self, queue: &str) -> anyhow::Result<u64> {
        let queues = self.get("/queues")?;
        let found = queues.as_array().into_iter().flatten().find(|row| row["name"] == queue);
        Ok(found.and_then(|row| row["completed"].as_u64()).unwrap_or(0))
    }
}
