//! Programs with options before their subcommand: `git -C . push` is a `git push`.
//!
//! Such a command is tried a second time without those options. For each program the options that take a
//! value are listed; behind one that is not listed every later word may be the subcommand, and all of them
//! are tried. Options between a subcommand and its own subcommand are left out for a few programs only.

use super::harmless::is_plain_git_key;
use super::programs::{ALIAS, MANY_PLACES, MAX_PLACES, short_options};
use super::word::Word;
use super::{Place, Work};

/// A program, or a program and a subcommand, with its options.
struct Program {
    name: &'static str,
    /// Letters of options with a value.
    valued: &'static str,
    /// Letters of options without one.
    flags: &'static str,
    /// Long options with a value, which may be a word of its own.
    long: &'static [&'static str],
    /// Long options without one.
    plain: &'static [&'static str],
}

const fn program(
    name: &'static str,
    valued: &'static str,
    flags: &'static str,
    long: &'static [&'static str],
    plain: &'static [&'static str],
) -> Program {
    Program { name, valued, flags, long, plain }
}

const COMPOSE: &[&str] = &[
    "--ansi",
    "--env-file",
    "--file",
    "--parallel",
    "--profile",
    "--progress",
    "--project-directory",
    "--project-name",
];
const COMPOSE_PLAIN: &[&str] = &["--all-resources", "--compatibility", "--dry-run", "--verbose"];
const DNF_PLAIN: &[&str] = &["--assumeyes", "--assumeno", "--quiet", "--verbose", "--best", "--refresh"];
const APT: &[&str] = &["--option", "--config-file", "--target-release", "--default-release"];
const APT_PLAIN: &[&str] = &["--yes", "--assume-yes", "--quiet", "--simulate", "--dry-run", "--no-install-recommends"];
const GH: &[&str] = &["--repo"];
const TERRAFORM: &[&str] = &["-chdir"];
const NPM_PLAIN: &[&str] = &["--silent", "--quiet", "--global", "--verbose", "--offline", "--no-audit", "--no-fund"];

const PROGRAMS: &[Program] = &[
    program("apk", "pX", "qvfi", &["--root", "--repository", "--arch"], &["--quiet", "--verbose", "--no-cache"]),
    program("apt", "oct", "yqsdfmuV", APT, APT_PLAIN),
    program("apt-get", "oct", "yqsdfmuV", APT, APT_PLAIN),
    program(
        "aws",
        "",
        "",
        &[
            "--ca-bundle",
            "--cli-binary-format",
            "--cli-connect-timeout",
            "--cli-read-timeout",
            "--color",
            "--endpoint-url",
            "--output",
            "--profile",
            "--query",
            "--region",
        ],
        &["--debug", "--no-verify-ssl", "--no-paginate", "--no-sign-request", "--no-cli-pager"],
    ),
    program(
        "cargo",
        "CZ",
        "vqVh",
        &["--color", "--config", "--explain"],
        &["--verbose", "--quiet", "--locked", "--offline", "--frozen"],
    ),
    program("dnf", "cdeRx", "yqvbC", &[], DNF_PLAIN),
    program(
        "docker",
        "cHl",
        "Dv",
        &["--config", "--context", "--host", "--log-level", "--tlscacert", "--tlscert", "--tlskey"],
        &["--debug", "--tls", "--tlsverify"],
    ),
    program("docker compose", "fp", "", COMPOSE, COMPOSE_PLAIN),
    program("docker-compose", "fp", "", COMPOSE, COMPOSE_PLAIN),
    program(
        "gcloud",
        "",
        "qh",
        &[
            "--access-token-file",
            "--account",
            "--billing-project",
            "--configuration",
            "--flags-file",
            "--format",
            "--impersonate-service-account",
            "--project",
            "--verbosity",
        ],
        &["--quiet", "--log-http"],
    ),
    program("gh", "R", "", GH, &[]),
    program("gh issue", "R", "", GH, &[]),
    program("gh pr", "R", "", GH, &[]),
    program("gh release", "R", "", GH, &[]),
    program("gh run", "R", "", GH, &[]),
    program("gh secret", "R", "", GH, &[]),
    program("gh variable", "R", "", GH, &[]),
    program("gh workflow", "R", "", GH, &[]),
    program(
        "git",
        "Cc",
        "pPvh",
        &["--attr-source", "--config-env", "--git-dir", "--namespace", "--super-prefix", "--work-tree"],
        &[
            "--bare",
            "--exec-path",
            "--glob-pathspecs",
            "--icase-pathspecs",
            "--literal-pathspecs",
            "--no-advice",
            "--no-lazy-fetch",
            "--no-optional-locks",
            "--no-pager",
            "--no-replace-objects",
            "--noglob-pathspecs",
            "--paginate",
        ],
    ),
    program("go", "C", "", &[], &[]),
    program(
        "helm",
        "n",
        "",
        &[
            "--burst-limit",
            "--kube-apiserver",
            "--kube-as-group",
            "--kube-as-user",
            "--kube-ca-file",
            "--kube-context",
            "--kube-tls-server-name",
            "--kube-token",
            "--kubeconfig",
            "--namespace",
            "--qps",
            "--registry-config",
            "--repository-cache",
            "--repository-config",
        ],
        &["--debug", "--kube-insecure-skip-tls-verify"],
    ),
    program("hg", "R", "yqv", &["--cwd", "--repository", "--config", "--color", "--pager"], &["--quiet", "--verbose"]),
    program(
        "kubectl",
        "nsv",
        "",
        &[
            "--as",
            "--as-group",
            "--as-uid",
            "--cache-dir",
            "--certificate-authority",
            "--client-certificate",
            "--client-key",
            "--cluster",
            "--context",
            "--kubeconfig",
            "--namespace",
            "--password",
            "--profile",
            "--profile-output",
            "--request-timeout",
            "--server",
            "--tls-server-name",
            "--token",
            "--user",
            "--username",
            "--v",
            "--vmodule",
        ],
        &["--disable-compression", "--insecure-skip-tls-verify", "--match-server-version", "--warnings-as-errors"],
    ),
    program(
        "make",
        "CfIoW",
        "bBdeiknpqrRsStwh",
        &["--directory", "--file", "--makefile", "--include-dir", "--old-file", "--new-file", "--what-if", "--eval"],
        &[
            "--always-make",
            "--silent",
            "--quiet",
            "--keep-going",
            "--dry-run",
            "--no-print-directory",
            "--ignore-errors",
        ],
    ),
    program(
        "npm",
        "Cw",
        "gsqdfy",
        &["--cache", "--loglevel", "--otp", "--prefix", "--registry", "--tag", "--userconfig", "--workspace"],
        NPM_PLAIN,
    ),
    program(
        "pip",
        "",
        "vqVh",
        &[
            "--cache-dir",
            "--cert",
            "--client-cert",
            "--exists-action",
            "--log",
            "--proxy",
            "--python",
            "--retries",
            "--timeout",
            "--trusted-host",
        ],
        &["--isolated", "--no-input", "--require-virtualenv", "--no-color", "--no-cache-dir", "--quiet", "--verbose"],
    ),
    program("pnpm", "CF", "rw", &["--dir", "--filter", "--loglevel", "--reporter"], &["--recursive", "--silent"]),
    program(
        "podman",
        "c",
        "rv",
        &["--connection", "--identity", "--log-level", "--root", "--runroot", "--runtime", "--storage-driver", "--url"],
        &["--remote", "--syslog"],
    ),
    program("podman compose", "fp", "", COMPOSE, COMPOSE_PLAIN),
    program("poetry", "CP", "qvn", &["--directory", "--project"], &["--quiet", "--no-interaction", "--no-ansi"]),
    program(
        "systemctl",
        "HMtpnosP",
        "alqfriT",
        &[
            "--host",
            "--machine",
            "--type",
            "--state",
            "--property",
            "--lines",
            "--output",
            "--signal",
            "--root",
            "--image",
        ],
        &["--user", "--system", "--quiet", "--no-pager", "--no-block", "--now", "--force", "--global", "--runtime"],
    ),
    program("terraform", "", "", TERRAFORM, &[]),
    program("tofu", "", "", TERRAFORM, &[]),
    program("uv", "", "qvn", &["--cache-dir", "--color", "--config-file", "--directory", "--project"], &["--offline"]),
    program("yarn", "", "s", &["--cwd", "--registry", "--cache-folder"], &["--silent", "--verbose", "--offline"]),
    program("yum", "cdeRx", "yqvbC", &[], DNF_PLAIN),
];

fn find(name: &str) -> Option<&'static Program> {
    PROGRAMS.iter().find(|program| program.name == name)
}

/// A program's name without a version at its end: `pip3.12`, `python3`.
pub(super) fn unversioned(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
}

impl Work<'_> {
    /// The command without the options before its subcommand, in every way that it may be meant. Empty
    /// when there are none.
    pub(super) fn without_globals(&mut self, name: &str, words: &[Word]) -> Vec<Vec<Word>> {
        let Some(program) = find(name).or_else(|| find(unversioned(name)).filter(|program| program.name == "pip"))
        else {
            return Vec::new();
        };
        let mut forms = self.shortened(program, words, 1);
        let inner: Vec<Vec<Word>> = std::iter::once(words)
            .chain(forms.iter().map(Vec::as_slice))
            .filter_map(|form| Some((find(&format!("{name} {}", form.get(1)?.known()?))?, form)))
            .flat_map(|(program, form)| self.shortened(program, form, 2))
            .collect();
        forms.extend(inner);
        forms
    }

    fn shortened(&mut self, program: &Program, words: &[Word], from: usize) -> Vec<Vec<Word>> {
        let head = words.get(..from).unwrap_or_default();
        let args = words.get(from..).unwrap_or_default();
        let mut forms = Vec::new();
        let mut add = |open: Option<Word>, at: usize| {
            let tail = args.get(at..).unwrap_or_default();
            forms.push(head.iter().cloned().chain(open).chain(tail.iter().cloned()).collect());
        };
        let (mut at, mut unsure_from) = (0, None);
        while let Some(word) = args.get(at) {
            let Some((width, known)) = option(program, word) else { break };
            // A word that the shell takes apart may bring the subcommand along.
            if args.get(at..).unwrap_or_default().iter().take(width).any(Word::splits) {
                add(Some(Word::open()), at + width);
            }
            at += width;
            if !known {
                unsure_from.get_or_insert(at);
            }
            if word.text() == "--" {
                break;
            }
        }
        if at == 0 {
            return forms;
        }
        add(None, at);
        if let Some(first) = unsure_from {
            if args.len() > MAX_PLACES {
                self.unclear(MANY_PLACES);
                return forms;
            }
            let later = args.iter().enumerate().skip(first).filter(|(place, word)| *place != at && !is_option(word));
            later.for_each(|(place, _)| add(None, place));
        }
        forms
    }

    /// What git is told about aliases makes names mean something else.
    pub(super) fn git_aliases(&mut self, args: &[Word]) {
        let last = args.last().and_then(Word::known);
        let renames = |word: &Word| {
            // The text of such a one is looked at itself; words behind it would be words of that text.
            let shell = word.known().and_then(|text| text.strip_prefix("alias.")?.split_once("=!"));
            if shell.is_some_and(|(name, _)| Some(name) == last) {
                return false;
            }
            let lead = word.lead().to_ascii_lowercase();
            let key = lead.split_once('=').map_or(lead.as_str(), |(key, _)| key);
            let named = ["alias.", "include.", "includeif."];
            named.iter().any(|name| lead.starts_with(name)) || (word.known().is_none() && !is_plain_git_key(key))
        };
        let configures = args.iter().any(|word| word.text() == "config");
        for (at, word) in args.iter().enumerate() {
            let given = match word.text() {
                "-c" | "--config-env" | "--config" => args.get(at + 1).cloned(),
                _ => word.behind("--config-env=").or_else(|| word.behind("--config=")),
            };
            let next = args.get(at + 1);
            let computed = next.is_some_and(|word| word.known().is_none()) && !is_plain_git_key(word.text());
            let is_key = word.text().contains('.') && word.is_operand();
            let is_alias = word.lead().to_ascii_lowercase().starts_with("alias.") && next.is_some();
            let sets = configures && (is_alias || (is_key && computed));
            if sets || given.as_ref().is_some_and(renames) {
                self.unclear(ALIAS);
            }
        }
    }

    /// The place that `git -C` leads to.
    pub(super) fn git_place(&self, args: &[Word], place: &Place) -> Place {
        let mut place = place.clone();
        let directories = args.iter().zip(args.iter().skip(1)).filter(|(option, _)| option.text() == "-C");
        // Behind the subcommand it is another option, so that both may hold.
        directories.for_each(|(_, directory)| self.also_in(directory, &mut place));
        place
    }
}

fn is_option(word: &Word) -> bool {
    word.lead().starts_with('-') && word.text() != "-"
}

/// How many words an option takes, and whether that is certain. Nothing when it is none.
fn option(program: &Program, word: &Word) -> Option<(usize, bool)> {
    let text = word.text();
    let chosen = program.name == "cargo" && text.starts_with('+');
    let variable = program.name == "make" && !text.starts_with('-') && word.lead().contains('=');
    if chosen || variable || text == "--" {
        return Some((1, true));
    }
    if !is_option(word) {
        return None;
    }
    let (name, attached) = word.lead().split_once('=').map_or((text, false), |(name, _)| (name, true));
    Some(if program.long.contains(&name) {
        (1 + usize::from(!attached), true)
    } else if program.plain.contains(&name) {
        (1, true)
    } else if text.starts_with("--") {
        (1, attached)
    } else {
        let (width, known) = short_options(text, program.valued, program.flags);
        (width, known && (word.known().is_some() || width == 1))
    })
}
