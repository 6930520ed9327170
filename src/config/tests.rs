//! Tests of the configuration and its layers.

use std::time::Duration;

use teamwire_server::domain::Limits;

use super::*;

fn load(text: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Config, Failure> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("teamwire.toml");
    fs::write(&file, text).unwrap();
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let flags: Vec<_> = flags.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    Config::load(Some(&file), environment, &flags)
}

fn message(failure: Failure) -> String {
    let Failure::Other { code, message } = failure else { panic!("{failure:?}") };
    assert_eq!(code, crate::failure::USAGE);
    message
}

fn refused(text: &str) -> String {
    message(load(text, &[], &[]).expect_err(text))
}

#[test]
fn the_default_file_matches_the_table_of_keys_and_the_defaults_in_code() {
    let document: DocumentMut = DEFAULT.parse().unwrap();
    let mut found = Vec::new();
    leaves("", document.as_table(), &mut found);
    let found: Vec<_> = found.into_iter().map(|(path, ..)| path).collect();
    let known: Vec<_> = KEYS.iter().map(|key| key.name).collect();
    assert_eq!(found, known);
    let none: [(String, String); 0] = [];
    let config = Config::load(None, none, &[]).unwrap();
    assert_eq!(config.settings, Settings::default());
    assert_eq!(config.print(), DEFAULT, "the defaults print as the default file");
}

#[test]
fn every_limit_is_configurable() {
    let fields = format!("{:#?}", Limits::default());
    let fields = fields.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(':'));
    let fields: Vec<_> =
        fields.map(|(field, _)| format!("limits.{field}")).filter(|name| !name.contains(' ')).collect();
    assert!(fields.len() > 10, "{fields:?}");
    for field in fields {
        // The rules need them as well, but they bound nothing.
        let field = if field == "limits.prices" { "usage.prices".to_owned() } else { field };
        assert!(KEYS.iter().any(|key| key.name == field), "{field} cannot be configured");
    }
}

#[test]
fn the_default_file_states_every_bound() {
    let document: DocumentMut = DEFAULT.parse().unwrap();
    for key in KEYS
        .iter()
        .filter(|key| matches!(key.kind, value::Kind::Number(_) | value::Kind::Size(_) | value::Kind::Duration(_)))
    {
        let (section, name) = key.path();
        let table = section.map_or(document.as_table(), |section| document[section].as_table().unwrap());
        let comment = table.key(name).unwrap().leaf_decor().prefix().unwrap().as_str().unwrap();
        let comment = comment.replace("\n# ", " ");
        assert!(comment.contains(&key.kind.bounds()), "{}: {} is missing from {comment}", key.name, key.kind.bounds());
    }
}

#[test]
fn flags_override_the_environment_and_the_environment_overrides_the_file() {
    let file = "log = \"warn\"\n[limits]\nmembers_max = 10\ndeliveries_max = 7\nsummary_chars_max = 9\n";
    let environment = [("TEAMWIRE_LIMITS_DELIVERIES_MAX", "8"), ("TEAMWIRE_LOG", "debug"), ("TEAMWIRE_TEAM", "acme")];
    let config = load(file, &environment, &[("log", "trace")]).unwrap();
    let limits = &config.settings.limits;
    assert_eq!((limits.members_max, limits.deliveries_max, limits.summary_chars_max), (10, 8, 9));
    assert_eq!(limits.attachments_max, Limits::default().attachments_max);
    assert_eq!(config.settings.log, "trace");
    assert!(config.print().contains("members_max = 10\n"), "{}", config.print());
}

#[test]
fn the_printed_configuration_parses_back_to_itself() {
    let file =
        "advertise = [\"https://a:1\", \"https://b:2\"]\n[limits]\ncontent_bytes_max = 5000\nlease_ttl = \"100s\"\n";
    let printed = load(file, &[], &[]).unwrap().print();
    let again = load(&printed, &[], &[]).unwrap();
    assert_eq!(again.print(), printed);
    assert_eq!(again.settings.limits.lease_ttl, Duration::from_secs(100));
    assert_eq!(again.settings.advertise.len(), 2);
}

#[test]
fn the_stores_password_is_masked() {
    for (url, shown) in [
        ("redis://ann:s3cret@host:6379/1", "redis://ann:***@host:6379/1"),
        ("redis://:s3@cret@host", "redis://:***@host"),
        ("redis://host", "redis://host"),
        ("embedded:/a/b", "embedded:/a/b"),
    ] {
        assert_eq!(without_password(url), shown);
    }
    let printed = load("store = \"redis://:s3cret@host\"", &[], &[]).unwrap().print();
    assert!(printed.contains("***") && !printed.contains("s3cret"), "{printed}");
}

#[test]
fn errors_name_the_place_and_the_valid_values() {
    let error = refused("log = \"info\"\n\n[limits]\nmember_max = 3\n");
    assert!(error.contains("teamwire.toml:4") && error.contains("Did you mean limits.members_max?"), "{error}");
    let error = refused("[limit]\nmembers_max = 3\n");
    assert!(error.contains("limit.members_max") && error.contains("limits.members_max?"), "{error}");
    let error = refused("[network]\nconnections_max = 0\n");
    assert!(error.contains(":2: network.connections_max is 0; it must be 1 to 100000"), "{error}");
    let error = refused("[shares]\nreply_bytes_max = \"1MiB\"\n");
    assert!(error.contains(":2: shares.reply_bytes_max is \"1MiB\"; it must be \"8MiB\" to \"64GiB\""), "{error}");
    let error = refused("[network]\nreserved_percent = 51\n");
    assert!(error.contains("it must be 0 to 50"), "{error}");
    let error = refused("[drain]\ngrace = 3\n");
    assert!(error.contains("drain.grace is 3; it must be \"0s\" to \"1h\""), "{error}");
    let error = refused("[limits]\nmembers_max = \"3\"\n");
    assert!(error.contains("it must be 1 to 1000"), "{error}");
    assert!(refused("[limits\n").contains("is not valid TOML"));
    let error = message(load("", &[("TEAMWIRE_RATES_SEND_BURST", "3")], &[]).unwrap_err());
    assert!(error.contains("TEAMWIRE_RATES_SENDS_BURST?"), "{error}");
}

#[test]
fn contradictory_settings_are_refused() {
    assert!(refused("[tls]\ncert = \"a\"\n").contains("tls.key"));
    assert!(refused("[tls]\nclient_ca = \"a\"\n").contains("tls.cert"));
    assert!(refused("[drain]\nhard_stop = \"1s\"\n").contains("drain.grace"));
    assert!(refused("[network]\nrequest_bytes_max = \"64KiB\"\n").contains("limits.content_bytes_max"));
    assert!(refused("[shares]\nreply_bytes_per_credential_max = \"512MiB\"\n").contains("shares.reply_bytes_max"));
    assert!(refused("[shares]\nrequest_bytes_max = \"1MiB\"\n").contains("shares.request_bytes_per_credential_max"));
    assert!(refused("[shares]\nreads_per_credential_max = 33\n").contains("shares.reads_max"));
    assert!(refused("[delivery]\nheartbeat_interval = \"20s\"\n").contains("limits.lease_ttl"));
    assert!(refused("advertise = [\"host:1\"]\n").contains("http://HOST:PORT"));
    assert!(refused("advertise = [\"http://a:1\", \"https://b:2\"]\n").contains("advertise cannot be used"));
}

/// A table that is complete.
const NOTIFY: &str = "[[notify]]\nevents = [\"permission\"]\nto = \"https://example.com/x\"\nsecret_env = \"SECRET\"\n";

#[test]
fn notify_tables_are_read_and_printed_after_the_keys() {
    let more = "after = \"90s\"\ncontent = true\n[[notify]]\nevents = [\"lost\", \"plan\"]\nexec = [\"sh\", \"-c\", \"a 'b' \\\"c\\\"\\nd\"]\n";
    let config = load(&format!("log = \"warn\"\n{NOTIFY}{more}"), &[], &[]).unwrap();
    let [webhook, program] = &config.settings.notify[..] else { panic!("{:?}", config.settings.notify) };
    assert_eq!((webhook.to.as_str(), webhook.after.as_secs(), webhook.content), ("https://example.com/x", 90, true));
    assert_eq!((program.exec[2].as_str(), program.after.as_secs(), program.content), ("a 'b' \"c\"\nd", 60, false));
    let printed = config.print();
    assert!(printed.starts_with(&DEFAULT[..100]) && printed.contains("\n#[[notify]]\n"), "{printed}");
    assert_eq!(load(&printed, &[], &[]).unwrap().print(), printed);
}

#[test]
fn mistakes_in_notify_tables_are_refused_with_their_place() {
    let with = |more: &str| refused(&format!("log = \"warn\"\n{NOTIFY}{more}"));
    let error = with("contents = true\n");
    assert!(error.contains("toml:6 has an unknown key, notify.contents. Did you mean notify.content?"), "{error}");
    let error = with("timeout = \"5m\"\n");
    assert!(error.contains(":6: notify.timeout is \"5m\"; it must be \"1s\" to \"1m\""), "{error}");
    assert!(with("exec = [\"true\"]\n").contains("either to, a URL, or exec, a program"));
    assert!(with("secret_file = \"a\"\n").contains("either secret_file or secret_env"));
    assert!(with(NOTIFY).contains(":6: this table has the same receiver and events as the one at"), "{}", with(NOTIFY));
    let other = |from: &str, to: &str| refused(&NOTIFY.replace(from, to));
    assert!(other("permission", "permissions").contains("\"permissions\"; it can have \"permission\", \"plan\""));
    assert!(other("events = [\"permission\"]", "").contains("notify.events is missing"));
    assert!(other("https://", "http://").contains("notify.to is not https"));
    assert!(other("example.com", "[::1]").contains("is a private address. To allow it, set allow_private = true."));
    assert!(other("secret_env = \"SECRET\"", "").contains("needs a secret"));
    assert!(other("to = \"https://example.com/x\"", "exec = [\"true\"]").contains("are for to, not for exec"));
    for other in ["[notify]\nto = \"x\"\n", "notify = [\"x\"]\n", "notify.to = 1\n"] {
        assert!(refused(other).contains("begins with [[notify]]"), "{other}");
    }
}
