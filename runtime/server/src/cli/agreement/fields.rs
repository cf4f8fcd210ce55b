//! The requests of the API compared with the command line: both can express the same, with the same names.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Arg, Command};
use serde_json::Value;

use crate::cli::agreement::{Problems, command, names};

/// How a request is sent from the command line.
enum Way {
    /// With this command. Fields without a flag of the same name are listed, with the alternative or the reason.
    By(&'static str, &'static [(&'static str, &'static str)]),
    /// Not possible, for this reason.
    Not(&'static str),
}

use Way::{By, Not};

const WORKER: &str = "sent by workers, which are programs";
const PAGES: &str = "the command reads all pages";
const OLDER: &str = "an older path of /webhook-endpoints, which the command uses";
const SECRET: &str = "--secret-from: what is on a command line can be seen by others";
const MACHINE: &str = "for machines that watch the server";

/// Every request of the API, without `/api/v1`.
const REQUESTS: &[(&str, Way)] = &[
    (
        "post /enqueue",
        By(
            "enqueue",
            &[
                ("name", "names a job for other jobs of the request, and the command sends one job"),
                ("jobs", "many jobs at once are sent by programs"),
                ("batch", "is for many jobs; `batch create` and --batch-id do the same for single jobs"),
            ],
        ),
    ),
    ("post /enqueue/batch", Not("many jobs at once are sent by programs")),
    ("get /auth/status", Not("for programs that want to know what their key may do; `key list` shows all")),
    ("post /auth/session", Not("for browsers; the command sends its key with each request")),
    ("delete /auth/session", Not("for browsers; the command sends its key with each request")),
    ("get /auth/oidc/login", Not("for browsers; the command sends its key with each request")),
    ("get /auth/oidc/callback", Not("for browsers, which the provider sends there")),
    ("get /auth/keys", By("key list", &[])),
    (
        "post /auth/keys",
        By(
            "key create",
            &[
                ("namespace", "--for-namespace, because --namespace is where the command itself works"),
                ("queue_scope", "an older name of one of the queues"),
            ],
        ),
    ),
    ("delete /auth/keys/{id}", By("key revoke", &[])),
    ("get /enqueue-rules", By("enqueue-rule list", &[])),
    ("put /enqueue-rules", By("enqueue-rule add", &[])),
    ("get /audit-logs", By("audit", &[])),
    ("get /namespaces", By("namespace list", &[])),
    ("post /namespaces", By("namespace create", &[("quotas", "each has a flag of its own")])),
    ("put /namespaces/{name}/quotas", By("namespace quotas", &[])),
    ("delete /namespaces/{name}", By("namespace remove", &[])),
    ("post /webhooks/{name}", Not("for senders that cannot choose the form of their body; others use `enqueue`")),
    ("post /batch", By("batch create", &[])),
    ("get /batch/{id}", By("batch show", &[])),
    ("post /batch/{id}/seal", By("batch seal", &[])),
    ("get /jobs", By("job list", &[("offset", PAGES)])),
    ("post /jobs/search", By("search", &[("cursor", PAGES)])),
    ("post /jobs/count", By("count", &[("filter", "the flags of `search`")])),
    ("get /dead", Not("`search --state dead`")),
    ("get /dead/groups", By("dead", &[])),
    ("get /usage/summary", By("usage", &[])),
    ("post /jobs/bulk-get", Not("`job get`, one by one")),
    ("get /jobs/stats", By("status", &[])),
    (
        "get /jobs/{id}",
        By(
            "job get",
            &[
                ("payload", "the text form shows the first characters, and the JSON form everything"),
                ("preview_chars", "the same"),
            ],
        ),
    ),
    ("get /jobs/{id}/attempts", By("job attempts", &[])),
    ("delete /jobs/{id}", By("job delete", &[])),
    ("patch /jobs/{id}", By("job edit", &[])),
    ("post /jobs/{id}/run-now", By("job run-now", &[])),
    ("post /jobs/{id}/approve", By("job approve", &[])),
    ("post /jobs/{id}/cancel", By("job cancel", &[])),
    ("post /jobs/{id}/hold", By("job hold", &[])),
    ("post /jobs/{id}/move", By("job move", &[])),
    ("post /jobs/{id}/rebuild", By("job rebuild", &[])),
    ("post /jobs/{id}/reject", By("job reject", &[])),
    ("post /jobs/{id}/requeue", By("job requeue", &[])),
    ("post /jobs/{id}/retry", By("job retry", &[])),
    ("get /jobs/{id}/result", By("job result", &[])),
    ("get /jobs/{id}/payload", By("job payload", &[])),
    ("get /jobs/{id}/logs", By("job logs", &[("limit", PAGES)])),
    ("get /jobs/{id}/wait", By("job wait", &[])),
    (
        "get /jobs/{id}/events",
        By(
            "job watch",
            &[
                ("logs", "always"),
                ("logs_from", "the command continues where it was"),
                ("last_event_id", "the command continues where it was"),
                ("Last-Event-ID", "the command continues where it was"),
            ],
        ),
    ),
    ("get /jobs/{id}/children", Not("`search --parent-id JOB`")),
    ("get /jobs/{id}/tree", Not("`flow show` draws it")),
    ("get /flows", By("flow list", &[("cursor", PAGES)])),
    ("get /batches", By("batch list", &[("cursor", PAGES)])),
    ("get /flows/{id}", By("flow show", &[("format", "the command draws it itself; pictures are for browsers")])),
    (
        "post /jobs/bulk",
        By("bulk", &[("filter", "the flags of `search`"), ("priority", "--set-priority: --priority is a filter")]),
    ),
    ("get /bulk", By("bulk list", &[])),
    ("get /bulk/{id}", By("bulk show", &[])),
    ("get /bulk/{id}/progress", By("bulk", &[])),
    ("post /bulk/{id}/cancel", By("bulk stop", &[])),
    ("get /queues", By("queue list", &[])),
    ("get /queues/{name}", By("queue show", &[])),
    ("get /queues/{name}/stats", By("queue show", &[])),
    ("delete /queues/{name}", By("queue destroy", &[])),
    ("post /queues/{name}/clear", By("queue clear", &[])),
    ("post /queues/{name}/drain", By("queue drain", &[])),
    ("post /queues/{name}/pause", By("queue pause", &[])),
    ("post /queues/{name}/resume", By("queue resume", &[])),
    ("post /queues/{name}/settings", By("queue set", &[])),
    ("post /queues/{name}/concurrency", Not("`queue set --max-concurrency N`")),
    ("post /queues/{name}/throttle", Not("`queue set --rate N/1m`")),
    ("delete /queues/{name}/throttle", Not("`queue set --rate none`")),
    ("get /queues/{name}/records", By("queue records", &[])),
    ("get /queues/{name}/rounds", By("queue rounds", &[("from", PAGES), ("limit", PAGES)])),
    (
        "post /queues/{name}/sweep",
        By("queue sweep", &[("failed", "on, unless --no-failed"), ("marked", "on, unless --no-marked")]),
    ),
    ("get /schedules", By("schedule list", &[])),
    ("post /schedules", By("schedule add", &[])),
    ("post /schedules/preview", By("schedule preview", &[])),
    ("put /schedules/{name}", By("schedule add", &[])),
    ("get /schedules/{name}", By("schedule get", &[])),
    ("delete /schedules/{name}", By("schedule remove", &[])),
    ("get /schedules/{name}/next", By("schedule next", &[])),
    ("post /schedules/{name}/pause", By("schedule pause", &[])),
    ("post /schedules/{name}/resume", By("schedule resume", &[])),
    ("post /schedules/{name}/run", By("schedule run", &[])),
    ("get /plugins", By("plugin list", &[])),
    ("get /plugins/{name}", By("plugin show", &[])),
    ("delete /plugins/{name}", By("plugin delete", &[])),
    (
        "put /plugins/{name}",
        By(
            "plugin push",
            &[
                ("activate", "on, unless --no-activate"),
                ("Windlass-Manifest", "--manifest"),
                ("Windlass-By", "the user's name and the machine's"),
            ],
        ),
    ),
    ("post /plugins/{name}/activate", By("plugin activate", &[("version", "the argument DIGEST")])),
    ("post /plugins/{name}/rollback", By("plugin rollback", &[])),
    ("post /plugins/{name}/canary", By("plugin canary", &[("version", "the argument DIGEST")])),
    ("post /plugins/{name}/canary/promote", By("plugin canary", &[])),
    ("delete /plugins/{name}/canary", By("plugin canary", &[])),
    ("get /plugins/{name}/component", Not("a file to download; curl does that")),
    ("get /plugins/{name}/grant", By("plugin show", &[])),
    ("put /plugins/{name}/grant", By("plugin grant", &[])),
    ("delete /plugins/{name}/grant", By("plugin revoke", &[])),
    ("get /plugins/{name}/manifest", By("plugin show", &[("version", "that of the active version")])),
    ("put /plugins/{name}/manifest", By("plugin manifest", &[("version", "--of: --version is every command's own")])),
    ("delete /plugins/{name}/versions/{version}", By("plugin delete", &[])),
    ("get /secrets", By("secret list", &[])),
    ("put /secrets/{name}", By("secret set", &[])),
    ("delete /secrets/{name}", By("secret remove", &[])),
    ("post /secrets/rotate", By("secret rotate", &[])),
    ("get /webhook-endpoints", By("webhook list", &[])),
    ("get /webhook-endpoints/{id}", Not("`webhook list` shows everything about each")),
    (
        "post /webhook-endpoints",
        By(
            "webhook add",
            &[
                ("url", "the argument URL: --url is every command's own"),
                ("enabled", "`webhook edit --enabled false`"),
                ("secret", SECRET),
            ],
        ),
    ),
    ("patch /webhook-endpoints/{id}", By("webhook edit", &[("url", "--address: --url is every command's own")])),
    ("post /webhook-endpoints/{id}/rotate-secret", By("webhook rotate", &[("secret", SECRET)])),
    ("get /webhook-endpoints/{id}/deliveries", By("webhook deliveries", &[])),
    ("post /webhook-endpoints/{id}/deliveries/{delivery}/redeliver", By("webhook redeliver", &[])),
    ("post /webhook-endpoints/{id}/test", By("webhook test", &[])),
    ("get /inbound-webhooks", By("webhook inbound list", &[])),
    (
        "put /inbound-webhooks/{queue}",
        By("webhook inbound set", &[("secret", "typed in, read from standard input, or --from")]),
    ),
    ("delete /inbound-webhooks/{queue}", By("webhook inbound remove", &[])),
    ("delete /webhook-endpoints/{id}", By("webhook remove", &[])),
    ("get /webhooks", Not(OLDER)),
    ("post /webhooks", Not(OLDER)),
    ("delete /webhooks/{name}", Not(OLDER)),
    ("get /workers", By("worker list", &[])),
    ("post /workers/{id}/drain", By("worker drain", &[])),
    ("post /workers/{id}/resume", By("worker resume", &[])),
    ("get /events", Not("a stream for programs; `job watch`, `dev` and `top` are for people")),
    ("post /fetch", Not(WORKER)),
    ("post /fetch/batch", Not(WORKER)),
    ("post /heartbeat", Not(WORKER)),
    ("post /ack/{id}", Not(WORKER)),
    ("post /ack/batch", Not(WORKER)),
    ("post /fail/{id}", Not(WORKER)),
    ("get /info", By("status", &[])),
    ("get /stats/series", By("stats", &[])),
    ("get /stats/queues", Not("lines beside the queues of a list; `stats --queue mail` shows the figures of one")),
    ("get /pulse", Not("a stream for programs; `top` shows the same to people")),
    ("get /system", By("status", &[])),
    ("get /attempts", By("attempt list", &[])),
    ("post /pause", By("pause", &[])),
    ("post /resume", By("resume", &[])),
    ("get /cluster/status", Not(MACHINE)),
    ("get /", Not("a page for browsers")),
    ("get /healthz", Not(MACHINE)),
    ("get /readyz", Not(MACHINE)),
    ("get /metrics", Not(MACHINE)),
    ("get /openapi.json", Not("the description itself")),
    ("get /docs", Not("the description itself, as a page")),
];

/// The description of the API.
struct Api(Value);

impl Api {
    fn operations(&self) -> BTreeMap<String, &Value> {
        let paths = self.0["paths"].as_object().expect("paths").iter();
        let all = paths.flat_map(|(path, item)| {
            let path = path.strip_prefix("/api/v1").unwrap_or(path);
            let item = item.as_object().expect("methods").iter();
            item.map(move |(method, operation)| (format!("{method} {path}"), operation))
        });
        all.collect()
    }

    /// Resolves a reference to a schema.
    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
            Some(name) => &self.0["components"]["schemas"][name],
            None => schema,
        }
    }

    /// The forms that a schema is made of.
    fn forms<'a>(&'a self, schema: &'a Value) -> Vec<&'a Value> {
        let schema = self.resolved(schema);
        let parts = ["allOf", "oneOf", "anyOf"].into_iter().filter_map(|kind| schema[kind].as_array()).flatten();
        std::iter::once(schema).chain(parts.flat_map(|part| self.forms(part))).collect()
    }

    /// The fields, parameters and headers of a request, with their schemas.
    fn fields<'a>(&'a self, operation: &'a Value) -> BTreeMap<&'a str, &'a Value> {
        let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice).iter();
        // Every command asks the server to be strict, unless it is given --lenient.
        // Aliases for older clients have no flag.
        let said = parameters.filter(|one| one["in"] != "path" && one["name"] != "strict" && one["deprecated"] != true);
        let mut fields: BTreeMap<&str, &Value> =
            said.map(|one| (one["name"].as_str().expect("a name"), &one["schema"])).collect();
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        for form in self.forms(body) {
            let properties = form["properties"].as_object().into_iter().flatten();
            let current = properties.filter(|(_, schema)| schema["deprecated"] != true);
            fields.extend(current.map(|(name, schema)| (name.as_str(), schema)));
        }
        fields
    }

    /// The values that a field accepts, if they are limited.
    fn values(&self, schema: &Value) -> BTreeSet<String> {
        let forms = self.forms(schema).into_iter();
        let items = forms.flat_map(|form| self.forms(&form["items"]).into_iter().chain([form]));
        let words = items.filter_map(|form| form["enum"].as_array()).flatten().filter_map(Value::as_str);
        words.map(str::to_owned).collect()
    }
}

/// The flag or argument for a field, if there is one.
fn argument<'a>(command: &'a Command, field: &str) -> Option<&'a Arg> {
    let (flag, place) = (field.to_lowercase().replace('_', "-"), field.to_lowercase());
    command.get_arguments().find(|one| names(one).iter().any(|name| *name == flag || *name == place))
}

/// A command by its words; the actions of `bulk` are values of its first argument.
fn find(words: &str) -> Option<Command> {
    let Some(action) = words.strip_prefix("bulk ") else { return command(words) };
    let bulk = command("bulk")?;
    let known = bulk.get_positionals().next()?.get_possible_values().iter().any(|value| value.matches(action, false));
    known.then_some(bulk)
}

#[test]
fn every_request_of_the_api_has_a_command_or_a_reason_why_not() {
    let api = Api(crate::http::description());
    let mut problems = Problems::default();
    let operations = api.operations();
    let listed: BTreeSet<&str> = REQUESTS.iter().map(|(request, _)| *request).collect();
    for request in operations.keys().filter(|request| !listed.contains(request.as_str())) {
        problems.add(format!(
            "`{request}` is new: add it to REQUESTS in cli/agreement/fields.rs, with its command or why there is none"
        ));
    }
    for (request, way) in REQUESTS {
        let Some(operation) = operations.get(*request) else {
            problems.add(format!("`{request}` is gone: remove it from REQUESTS in cli/agreement/fields.rs"));
            continue;
        };
        let (words, otherwise) = match way {
            By(words, otherwise) => (words, otherwise),
            Not(reason) => {
                explained(&mut problems, request, reason);
                continue;
            }
        };
        otherwise.iter().for_each(|(_, reason)| explained(&mut problems, request, reason));
        let Some(command) = find(words) else {
            problems.add(format!("`{request}`: there is no command `windlass {words}`"));
            continue;
        };
        let fields = api.fields(operation);
        for (field, _) in otherwise.iter().filter(|(field, _)| !fields.contains_key(field)) {
            problems.add(format!(
                "`{request}` no longer has `{field}`: remove it from REQUESTS in cli/agreement/fields.rs"
            ));
        }
        for (field, schema) in fields {
            let excused = otherwise.iter().any(|(name, _)| *name == field);
            match argument(&command, field) {
                Some(_) if excused => {}
                Some(flag) => same_values(&mut problems, request, words, flag, &api.values(schema)),
                None if excused => {}
                None => problems.add(format!(
                    "`{request}` takes `{field}`, and `windlass {words}` has no --{}: add the flag, or say in REQUESTS in \
                     cli/agreement/fields.rs why there is none",
                    field.to_lowercase().replace('_', "-")
                )),
            }
        }
    }
    problems.none();
}

/// Checks that a reason is given, and that a command it names exists.
fn explained(problems: &mut Problems, request: &str, reason: &str) {
    if reason.is_empty() {
        problems.add(format!("`{request}` in REQUESTS has no reason"));
    }
    for named in reason.split('`').skip(1).step_by(2) {
        if let Some(why) = crate::cli::agreement::commands::wrong(&format!("windlass {named}")) {
            problems.add(format!("`{request}` in REQUESTS names `{named}`, which is not a command: {why}"));
        }
    }
}

/// Checks that a choice has the same values in both.
fn same_values(problems: &mut Problems, request: &str, command: &str, flag: &Arg, words: &BTreeSet<String>) {
    if words.is_empty() {
        return;
    }
    let values: BTreeSet<String> =
        flag.get_possible_values().iter().map(|value| value.get_name().replace('-', "_")).collect();
    if values != *words {
        problems.add(format!(
            "`windlass {command}`: {flag} takes {values:?}, and `{request}` takes {words:?}; give the flag the type that the \
             request has (http/wire/words.rs), with `value_enum`"
        ));
    }
}
