//! Lookup order, and every way in which a place or a value is refused.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use secrets::{Error, Lookup, Reference, Secret, Source, parse_reference};
use tempfile::TempDir;

fn home(config: Option<&str>) -> TempDir {
    let home = TempDir::new().unwrap();
    if let Some(text) = config {
        write(home.path(), text, 0o600);
    }
    home
}

fn write(home: &Path, text: &str, mode: u32) {
    let path = home.join("config.yaml");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
}

fn lookup(home: &TempDir, environment: &[(&str, &str)]) -> Lookup {
    let known: Vec<(String, String)> = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Lookup::open(home.path(), move |name| known.iter().find(|(k, _)| k == name).map(|(_, v)| OsString::from(v)))
}

fn key() -> Reference {
    parse_reference("${KEY}").unwrap()
}

/// Value and source, or code and message.
fn outcome(lookup: &Lookup, reference: &Reference) -> Result<(String, &'static str), String> {
    match lookup.resolve(reference) {
        Ok(found) => Ok((found.secret().expose().to_owned(), found.source().as_str())),
        Err(error) => Err(format!("{}: {error}", error.code())),
    }
}

fn refusal(lookup: &Lookup, home: &TempDir) -> String {
    let text = outcome(lookup, &key()).unwrap_err();
    text.replace(&home.path().display().to_string(), "HOME")
}

#[test]
fn references_and_literals() {
    assert_eq!(parse_reference("${A_b9}").unwrap(), Reference::Name("A_b9".to_owned()));
    let literal = |text: &str| Reference::Literal(Secret::new(text.to_owned()));
    assert_eq!(parse_reference("sk-1$2{}").unwrap(), literal("sk-1$2{}"));
    for text in ["${}", "${9A}", "${A-B}", "${A", "x${A}", "${A}x", "${A}${B}", "${ A }", "Bearer ${A}"] {
        let error = parse_reference(text).unwrap_err();
        assert!(matches!(error, Error::Reference), "{text}");
        assert_eq!(error.code(), "E-RUN-004");
        assert_eq!(
            error.to_string(),
            "a credential reference must be exactly `${NAME}`, a name of letters, digits and `_`"
        );
    }
}

#[test]
fn the_config_file_comes_before_the_environment() {
    let home = home(Some("credentials:\n  KEY: from-config\n  EMPTY: \"\"\n"));
    let lookup = lookup(&home, &[("KEY", "from-env"), ("OTHER", "other-env"), ("EMPTY", "full")]);
    let ok = |text: &str, source| Ok((text.to_owned(), source));
    assert_eq!(outcome(&lookup, &key()), ok("from-config", "config"));
    assert_eq!(outcome(&lookup, &parse_reference("${OTHER}").unwrap()), ok("other-env", "environment"));
    assert_eq!(outcome(&lookup, &parse_reference("${EMPTY}").unwrap()), ok("full", "environment"));
    assert_eq!(outcome(&lookup, &parse_reference("lit").unwrap()), ok("lit", "manifest"));
}

#[test]
fn a_name_found_nowhere_is_named_with_both_places() {
    let home = home(None);
    let lookup = lookup(&home, &[("KEY", "")]);
    assert_eq!(
        refusal(&lookup, &home),
        "E-RUN-004: credential `KEY` is neither in `HOME/config.yaml` nor in the environment"
    );
    let hint = lookup.resolve(&key()).unwrap_err().hint();
    assert!(hint.starts_with("export KEY, or add it under `credentials:` in `"), "{hint}");
    assert_eq!(lookup.source(&key()).unwrap(), Source::None);
    assert_eq!(lookup.source(&parse_reference("lit").unwrap()).unwrap(), Source::Manifest);
    assert_eq!(
        outcome(&lookup, &parse_reference("").unwrap()),
        Err("E-RUN-004: credential `api_key` from the manifest holds no character".to_owned())
    );
}

#[test]
fn a_change_of_the_file_counts_from_the_next_call() {
    let home = home(Some("credentials: {KEY: one}"));
    let lookup = lookup(&home, &[]);
    assert_eq!(outcome(&lookup, &key()).unwrap().0, "one");
    write(home.path(), "credentials: {KEY: two}", 0o600);
    assert_eq!(outcome(&lookup, &key()).unwrap().0, "two");
}

#[test]
fn a_literal_needs_no_file() {
    let home = home(Some("not: [what, it, should, be"));
    let lookup = lookup(&home, &[]);
    assert_eq!(outcome(&lookup, &parse_reference("lit").unwrap()).unwrap().0, "lit");
    assert!(outcome(&lookup, &key()).is_err());
}

#[test]
fn a_file_that_others_can_read_or_write_is_refused() {
    let home = home(None);
    let lookup = lookup(&home, &[("KEY", "from-env")]);
    write(home.path(), "credentials: {KEY: from-config}", 0o600);
    for mode in [0o600, 0o400, 0o700, 0o611] {
        fs::set_permissions(home.path().join("config.yaml"), fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(outcome(&lookup, &key()).unwrap().1, "config", "{mode:o}");
    }
    for mode in [0o640, 0o604, 0o620, 0o602, 0o644, 0o666] {
        fs::set_permissions(home.path().join("config.yaml"), fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(
            refusal(&lookup, &home),
            format!("E-RUN-004: `HOME/config.yaml` has mode {mode:04o}: others can read or change it")
        );
    }
    assert!(lookup.resolve(&key()).unwrap_err().hint().starts_with("run: chmod 600 '"));
}

#[test]
fn only_a_regular_file_is_read() {
    let expected = "E-RUN-004: `HOME/config.yaml` is not a regular file";
    let linked = home(None);
    let target = linked.path().join("real.yaml");
    fs::write(&target, "credentials: {KEY: from-config}").unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
    symlink(&target, linked.path().join("config.yaml")).unwrap();
    assert_eq!(refusal(&lookup(&linked, &[]), &linked), expected);

    let dangling = home(None);
    symlink("/nowhere/at/all", dangling.path().join("config.yaml")).unwrap();
    assert_eq!(refusal(&lookup(&dangling, &[]), &dangling), expected);

    let directory = home(None);
    fs::create_dir(directory.path().join("config.yaml")).unwrap();
    assert_eq!(refusal(&lookup(&directory, &[]), &directory), expected);

    let pipe = home(None);
    let path = pipe.path().join("config.yaml");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert_eq!(refusal(&lookup(&pipe, &[]), &pipe), expected);

    // A home reached through a link is the operator's choice.
    let outer = home(None);
    let inner = home(Some("credentials: {KEY: from-config}"));
    symlink(inner.path(), outer.path().join("home")).unwrap();
    let lookup = Lookup::open(&outer.path().join("home"), |_| None);
    assert_eq!(outcome(&lookup, &key()).unwrap().1, "config");
}

#[test]
fn the_file_is_strict_and_its_errors_quote_nothing() {
    let value = "s3cr3t-value-zz";
    let long = format!("credentials: {{KEY: \"{}\"}}", "x".repeat(1 << 20));
    let cases: &[(&str, &str)] = &[
        ("credentials:\n  KEY: s3cr3t-value-zz\n  KEY: s3cr3t-value-zz\n", " line 3, column 3: a key stands twice"),
        (
            "credential:\n  KEY: s3cr3t-value-zz\n",
            " line 1, column 1: unknown key; known are `credentials` and `store`",
        ),
        (
            "credentials:\n  KEY: 12345\n",
            " line 2, column 8: a value that looks like a number, a boolean or null must be quoted",
        ),
        ("credentials:\n  KEY: [s3cr3t-value-zz]\n", ": not the expected YAML: a mapping of names to text values"),
        ("s3cr3t-value-zz", ": not the expected YAML: a mapping of names to text values"),
        ("credentials:\n  KEY: \"s3cr3t-value-zz\n", ": not the expected YAML: a mapping of names to text values"),
        ("credentials:\n  A: &a s3cr3t-value-zz\n  KEY: *a\n", ": too large, too deep, or uses anchors"),
        ("---\ncredentials: {}\n---\ncredentials: {KEY: s3cr3t-value-zz}\n", ": more than one YAML document"),
        (&long, ": the file is larger than 1 MiB"),
    ];
    for (text, expected) in cases {
        let home = home(Some(text));
        let message = refusal(&lookup(&home, &[]), &home);
        let head: String = text.chars().take(60).collect();
        assert!(message.starts_with("E-RUN-004: `HOME/config.yaml`"), "{message}");
        assert!(message.ends_with(expected), "{head:?}: {message}");
        assert!(!message.contains(value), "{message}");
    }
    for text in ["", "# nothing\n", "credentials:\n", "credentials: {}\n", "store: postgres://u@h/d\n"] {
        let home = home(Some(text));
        assert_eq!(outcome(&lookup(&home, &[("KEY", "from-env")]), &key()).unwrap().1, "environment");
    }
    let home = home(None);
    fs::write(home.path().join("config.yaml"), b"credentials: {KEY: \"\xff\"}").unwrap();
    fs::set_permissions(home.path().join("config.yaml"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(refusal(&lookup(&home, &[]), &home), "E-RUN-004: `HOME/config.yaml`: the file is not UTF-8 text");
}

#[test]
fn values_that_cannot_stand_in_a_header_are_refused_without_being_shown() {
    let plain = home(None);
    for (value, what) in [
        ("s3cr3t\n", "a line break"),
        ("s3cr3t\r\nX-Other: 1", "a line break"),
        ("s3cr3t\u{0}", "a control character"),
        ("s3cr3t\u{1b}[0m", "a control character"),
        ("s3cr3t\u{7f}", "a control character"),
        ("a\tb", "a control character"),
    ] {
        let lookup = lookup(&plain, &[("KEY", value)]);
        assert_eq!(refusal(&lookup, &plain), format!("E-RUN-004: credential `KEY` from the environment holds {what}"));
        let literal = Reference::Literal(Secret::new(value.to_owned()));
        assert_eq!(
            outcome(&lookup, &literal).unwrap_err(),
            format!("E-RUN-004: credential `api_key` from the manifest holds {what}")
        );
    }
    assert_eq!(outcome(&lookup(&plain, &[("KEY", "s3cr3t é ~")]), &key()).unwrap().0, "s3cr3t é ~");

    let block = home(Some("credentials:\n  KEY: |\n    s3cr3t\n"));
    assert_eq!(
        refusal(&lookup(&block, &[("KEY", "from-env")]), &block),
        "E-RUN-004: credential `KEY` from `HOME/config.yaml` holds a line break"
    );

    let bytes = Lookup::open(plain.path(), |_| Some(OsString::from_vec(vec![0xff, 0x41])));
    assert_eq!(
        refusal(&bytes, &plain),
        "E-RUN-004: credential `KEY` from the environment holds bytes that are not UTF-8"
    );
}

#[test]
fn nothing_prints_a_value() {
    let home = home(Some("credentials: {KEY: s3cr3t-value}"));
    let lookup = lookup(&home, &[]);
    let credential = lookup.resolve(&key()).unwrap();
    assert_eq!(format!("{credential:?}"), "Credential { secret: [secret], source: Config }");
    assert_eq!(format!("{:?}", parse_reference("s3cr3t").unwrap()), "Literal([secret])");
    assert!(!format!("{lookup:?}").contains("s3cr3t"));
    assert_eq!(credential.into_secret(), Secret::new("s3cr3t-value".to_owned()));
}
