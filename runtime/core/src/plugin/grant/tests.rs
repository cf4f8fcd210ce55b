use crate::plugin::grant::*;
use crate::plugin::manifest::Capabilities;

fn hosts(texts: &[&str]) -> Vec<HostPattern> {
    texts.iter().map(|text| text.parse().unwrap_or_else(|why| panic!("{why}"))).collect()
}

/// What is allowed and denied of HTTP, as text: `host` or `host!` when private addresses are allowed, too.
#[track_caller]
fn check_http(asked: &[&str], http: &[&str], private: &[&str], allowed: &[&str], refused: &[&str]) {
    let mut manifest = Manifest::default();
    manifest.capabilities.http = hosts(asked);
    let grant = Grant { http: hosts(http), private_http: hosts(private), ..Grant::default() };
    let (got, denied) = effective(&manifest, &grant);
    let got: Vec<String> =
        got.http.iter().map(|rule| format!("{}{}", rule.pattern, if rule.private { "!" } else { "" })).collect();
    assert_eq!(got, allowed);
    let denied: Vec<String> = denied.into_iter().map(|denied| denied.what).collect();
    assert_eq!(denied, refused.iter().map(|host| format!("HTTP to `{host}`")).collect::<Vec<_>>());
}

#[test]
fn http_goes_where_both_sides_agree() {
    check_http(&["api.example.com"], &[], &[], &[], &["api.example.com"]);
    check_http(&[], &["*"], &["*"], &[], &[]);
    check_http(&["api.example.com"], &["*.example.com"], &[], &["api.example.com"], &[]);
    check_http(&["*.example.com"], &["api.example.com"], &[], &["api.example.com"], &["*.example.com"]);
    check_http(&["db.internal:8080"], &[], &["db.internal:8080"], &["db.internal:8080!"], &[]);
    check_http(&["a.com", "b.com"], &["b.com"], &[], &["b.com"], &["a.com"]);
}

#[test]
fn a_folder_is_seen_when_both_sides_name_it_and_written_when_both_say_so() {
    let table = [
        // asked to write, granted (to write), allowed (to write), denied
        (false, None, None, true),
        (true, None, None, true),
        (false, Some(false), Some(false), false),
        (false, Some(true), Some(false), false),
        (true, Some(false), Some(false), true),
        (true, Some(true), Some(true), false),
    ];
    for (write, granted, expected, refused) in table {
        let mut manifest = Manifest::default();
        let list = if write { &mut manifest.capabilities.write } else { &mut manifest.capabilities.read };
        list.push("/data".to_owned());
        let folder = |write| ("/data".to_owned(), FolderGrant { path: "/srv/data".to_owned(), write });
        let grant = Grant { folders: granted.map(folder).into_iter().collect(), ..Grant::default() };
        let (allowed, denied) = effective(&manifest, &grant);
        assert_eq!(allowed.folders.first().map(|folder| folder.write), expected, "{write} {granted:?}");
        assert_eq!(denied.len(), usize::from(refused), "{write} {granted:?}: {denied:?}");
    }
}

#[test]
fn names_are_given_when_both_sides_name_them() {
    let mut manifest = Manifest::default();
    manifest.capabilities.environment = vec!["TZ".to_owned(), "HOME".to_owned()];
    manifest.capabilities.secrets = vec!["token".to_owned(), "key".to_owned()];
    let grant = Grant {
        environment: BTreeMap::from([("TZ".to_owned(), "UTC".to_owned()), ("PATH".to_owned(), "/bin".to_owned())]),
        secrets: BTreeSet::from(["token".to_owned(), "other".to_owned()]),
        ..Grant::default()
    };
    let (allowed, denied) = effective(&manifest, &grant);
    assert_eq!(allowed.environment, BTreeMap::from([("TZ".to_owned(), "UTC".to_owned())]));
    assert_eq!(allowed.secrets, BTreeSet::from(["token".to_owned()]));
    let words: Vec<String> = denied.iter().map(|denied| denied.sentence(&command("mailer"), None)).collect();
    assert_eq!(words.len(), 2);
    assert!(words[0].contains("environment variable `HOME`") && words[0].ends_with("--env HOME=VALUE"));
    let sentence = "the secret `key` is not granted; to allow it: windlass plugin grant mailer --secret key";
    assert_eq!(words[1], sentence);
}

/// Each denial of a manifest, as somebody reads it: the flag is one that works at the first try.
#[test]
fn every_denial_names_the_grant_that_works() {
    const PRIVATE_IF: &str = " (with --private-http instead if its address is not a public one)";
    const ROOT: &str = " (the folder must lie in /srv)";
    let table = [
        ("http = ['api.example.com']", PRIVATE_IF, "--http api.example.com"),
        ("http = ['*.example.com:8080']", "", "--http '*.example.com:8080'"),
        ("http = ['*']", "", "--http '*'"),
        ("http = ['93.184.216.34']", "", "--http 93.184.216.34"),
        ("http = ['127.0.0.1:7070']", "", "--private-http 127.0.0.1:7070"),
        ("http = ['10.0.0.7']", "", "--private-http 10.0.0.7"),
        ("http = ['169.254.169.254']", "", "--private-http 169.254.169.254"),
        ("http = ['[fd00::1]:8080']", "", "--private-http '[fd00::1]:8080'"),
        ("http = ['localhost:8080']", "", "--private-http localhost:8080"),
        ("http = ['app.localhost']", "", "--private-http app.localhost"),
        ("http = ['host.docker.internal:9000']", "", "--private-http host.docker.internal:9000"),
        ("http = ['nas.local']", "", "--private-http nas.local"),
        ("http = ['*.lan']", "", "--private-http '*.lan'"),
        ("http = ['database:5984']", "", "--private-http database:5984"),
        ("http = ['local.example.com']", PRIVATE_IF, "--http local.example.com"),
        ("read = ['/data']", ROOT, "--read /data=/a/folder/of/the/server"),
        ("write = ['/out put']", ROOT, "--write '/out put=/a/folder/of/the/server'"),
        ("environment = ['TZ']", "", "--env TZ=VALUE"),
        ("secrets = ['token']", "", "--secret token"),
        ("spawn = ['bills.send']", "", "--spawn bills.send"),
        ("spawn = ['bills.*']", "", "--spawn 'bills.*'"),
    ];
    for (asked, note, flag) in table {
        let list = |name: &str| -> Vec<String> {
            let list = asked.strip_prefix(name).and_then(|rest| rest.strip_prefix(" = ['")?.strip_suffix("']"));
            list.map(str::to_owned).into_iter().collect()
        };
        let mut manifest = Manifest::default();
        manifest.capabilities.http = hosts(&list("http").iter().map(String::as_str).collect::<Vec<_>>());
        manifest.capabilities.read = list("read");
        manifest.capabilities.write = list("write");
        manifest.capabilities.environment = list("environment");
        manifest.capabilities.secrets = list("secrets");
        manifest.capabilities.spawn = list("spawn").iter().map(|text| text.parse().expect("a pattern")).collect();
        let (_, denied) = effective(&manifest, &Grant::default());
        assert_eq!(denied.len(), 1, "{asked}: {denied:?}");
        let sentence = denied[0].sentence("windlass plugin grant mailer", Some("the folder must lie in /srv"));
        let expected = format!("is not granted; to allow it{note}: windlass plugin grant mailer {flag}");
        assert!(sentence.ends_with(&expected), "{asked}: {sentence}");
        assert!(sentence.starts_with(&denied[0].what), "{asked}: {sentence}");
    }
    let (_, denied) = effective(
        &Manifest {
            capabilities: Capabilities { http: hosts(&["0.0.0.0:80"]), ..Capabilities::default() },
            ..Manifest::default()
        },
        &Grant::default(),
    );
    let never = "HTTP to `0.0.0.0:80` is never allowed: it is an unspecified address";
    assert_eq!(denied[0].sentence("windlass plugin grant mailer", None), never);
    assert_eq!(denied[0].unasked("windlass plugin grant mailer"), never);
}

#[test]
fn what_a_pattern_of_the_manifest_covers_is_granted_as_it_was_asked_for_unless_that_is_everything() {
    let host = |text: &str| hosts(&[text]).remove(0);
    let queue = |text: &str| -> QueuePattern { text.parse().unwrap_or_else(|why| panic!("{why}")) };
    for (target, asked, flag) in [
        ("api.example.com", Some("*.example.com"), "--http '*.example.com'"),
        ("api.example.com", Some("*"), "--http '*'"),
        ("nas.local", Some("*.local"), "--private-http '*.local'"),
        ("10.0.0.7:8080", Some("*:8080"), "--private-http 10.0.0.7:8080"),
        ("api.example.com", None, "--http api.example.com"),
    ] {
        assert_eq!(Denied::http(&host(target), asked.map(host).as_ref()).flag, flag, "{target} {asked:?}");
    }
    for (target, asked, flag) in
        [("bills.send", Some("bills.*"), "--spawn 'bills.*'"), ("bills.send", Some("*"), "--spawn bills.send")]
    {
        assert_eq!(Denied::spawn(&queue(target), asked.map(queue).as_ref()).flag, flag, "{target} {asked:?}");
    }
}

#[test]
fn jobs_are_spawned_where_both_sides_agree() {
    let patterns = |texts: &[&str]| -> Vec<QueuePattern> {
        texts.iter().map(|text| text.parse().unwrap_or_else(|why| panic!("{why}"))).collect()
    };
    type Texts = &'static [&'static str];
    let table: [(Texts, Texts, Texts, usize); 5] = [
        (&[], &["*"], &[], 0),
        (&["mail.send"], &[], &[], 1),
        (&["mail.send"], &["mail.*"], &["mail.send"], 0),
        (&["mail.*"], &["mail.send", "other"], &["mail.send"], 1),
        (&["mail.*", "bills"], &["*"], &["mail.*", "bills"], 0),
    ];
    for (asked, granted, expected, refused) in table {
        let mut manifest = Manifest::default();
        manifest.capabilities.spawn = patterns(asked);
        let grant = Grant { spawn: patterns(granted), ..Grant::default() };
        let (allowed, denied) = effective(&manifest, &grant);
        assert_eq!(allowed.spawn, patterns(expected), "{asked:?} {granted:?}");
        assert_eq!(denied.len(), refused, "{asked:?} {granted:?}: {denied:?}");
        assert!(denied.iter().all(|denied| denied.flag.starts_with("--spawn ")), "{denied:?}");
    }
}

#[test]
fn memory_is_the_default_until_both_sides_want_more() {
    let default = AllowedLimits::default().memory;
    let more = Size(default.0 * 4);
    let less = Size(default.0 / 4);
    let table = [
        (None, None, default, false),
        (None, Some(more), default, false),
        (None, Some(less), less, false),
        (Some(more), None, default, true),
        (Some(more), Some(more), more, false),
        (Some(more), Some(less), less, true),
        (Some(less), None, less, false),
    ];
    for (asked, ceiling, expected, refused) in table {
        let mut manifest = Manifest::default();
        manifest.limits.memory = asked;
        let grant = Grant { limits: Limits { memory: ceiling, ..Limits::default() }, ..Grant::default() };
        let (allowed, denied) = effective(&manifest, &grant);
        assert_eq!(allowed.limits.memory, expected, "{asked:?} {ceiling:?}");
        assert_eq!(!denied.is_empty(), refused, "{asked:?} {ceiling:?}: {denied:?}");
    }
}

#[test]
fn a_timeout_is_the_shorter_of_the_two() {
    let span = |seconds| Some(Span(Duration::from_secs(seconds)));
    for (asked, ceiling, expected) in [
        (None, None, None),
        (span(5), None, span(5)),
        (None, span(9), span(9)),
        (span(5), span(9), span(5)),
        (span(9), span(5), span(5)),
        (span(3_600), None, span(3_600)),
        (span(7_200), span(9_000), span(7_200)),
        (span(7_200), span(5_400), span(5_400)),
        (None, span(7_200), span(7_200)),
    ] {
        let (allowed, denied) = timeouts(asked, ceiling);
        assert_eq!(allowed, expected);
        assert_eq!(denied.len(), usize::from(asked.zip(ceiling).is_some_and(|(asked, ceiling)| asked > ceiling)));
    }
    // The default holds for what asks for more and is not granted it.
    let (allowed, denied) = timeouts(span(7_200), None);
    assert_eq!((allowed, denied[0].flag.as_str()), (None, "--attempt-timeout 2h"));
    assert!(denied[0].what.contains("at most 1h"), "{}", denied[0].what);
}

fn timeouts(asked: Option<Span>, ceiling: Option<Span>) -> (Option<Span>, Vec<Denied>) {
    let mut manifest = Manifest::default();
    manifest.limits.attempt_timeout = asked;
    let grant = Grant { limits: Limits { attempt_timeout: ceiling, ..Limits::default() }, ..Grant::default() };
    let (allowed, denied) = effective(&manifest, &grant);
    (allowed.limits.attempt_timeout, denied)
}

#[test]
fn http_requests_have_the_defaults_unless_both_sides_want_more() {
    let default = AllowedHttp::default();
    let (short, long) = (Span(Duration::from_secs(1)), Span(Duration::from_secs(86_400)));
    let mut manifest = Manifest::default();
    manifest.limits.http =
        HttpLimits { connect: Some(short), total: Some(long), at_once: Some(64), ..HttpLimits::default() };
    let (allowed, denied) = effective(&manifest, &Grant::default());
    assert_eq!(allowed.limits.http, AllowedHttp { connect: short, ..default.clone() });
    let flags: Vec<&str> = denied.iter().map(|denied| denied.flag.as_str()).collect();
    assert_eq!(flags, ["--http-total 1d", "--http-at-once 64"]);

    let mut grant = Grant::default();
    grant.limits.http = HttpLimits { total: Some(long), at_once: Some(32), ..HttpLimits::default() };
    let (allowed, denied) = effective(&manifest, &grant);
    assert_eq!(allowed.limits.http, AllowedHttp { connect: short, total: long, at_once: 32, ..default });
    assert_eq!(denied.len(), 1, "{denied:?}");
}

#[test]
fn a_grant_that_cannot_be_meant_is_refused() {
    let folder = |guest: &str, path: &str| Grant {
        folders: BTreeMap::from([(guest.to_owned(), FolderGrant { path: path.to_owned(), write: false })]),
        ..Grant::default()
    };
    assert_eq!(folder("/data", "/srv/data").check(), Ok(()));
    assert!(folder("/data", "srv/data").check().is_err());
    assert!(folder("/data/..", "/srv/data").check().is_err());
}
