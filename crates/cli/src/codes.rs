//! The diagnostic codes of the commands and of sessions, with what to do.
//!
//! Codes about a manifest's text stand in crate `manifest`. A code never changes its meaning.

/// Code, meaning, what to do.
pub(crate) const CODES: &[(&str, &str, &str)] = &[
    (
        "E-INI-001",
        "something stands where `mur init` was to write a manifest",
        "name another directory, or move the file away",
    ),
    ("E-INI-002", "the starter manifest cannot be written", "name a directory that you can write"),
    (
        "E-RUN-001",
        "there is no task, or its text cannot be read",
        "give `--task` a text, a file, or `-` for standard input",
    ),
    (
        "E-RUN-002",
        "the workdir cannot be used",
        "name an existing directory outside the runtime's home, and make its `scope`",
    ),
    ("E-RUN-003", "the tools' surroundings cannot be set up", "the message names the directory or the program"),
    (
        "E-RUN-004",
        "a credential does not resolve",
        "put it into `<home>/config.yaml` under `credentials` (mode 0600), or into the environment",
    ),
    (
        "E-RUN-005",
        "the session to be resumed still runs",
        "send it the task with `mur send`, or end it with `mur stop`",
    ),
    (
        "E-RUN-006",
        "the workdir of the session to be resumed is gone",
        "name another with `--workdir`, or go on with one conversation alone: `--context`",
    ),
    (
        "E-RUN-007",
        "the export of spans cannot start",
        "write `observability.otlp_endpoint` as in `http://127.0.0.1:4318`",
    ),
    (
        "E-POL-001",
        "rules that are not valid; nothing was saved",
        "the message lists every fault; `mur policy check` saves nothing",
    ),
    (
        "E-POL-002",
        "the stored rules cannot be read, so every action that they could govern is blocked",
        "`mur policy set FILE` replaces them",
    ),
    ("E-POL-003", "no rule has this id", "`mur policy show` lists them"),
    ("E-POL-004", "a document of rules cannot be read", "name a JSON file of at most 1 MiB, or `-`"),
    (
        "E-STO-001",
        "the settings store's URL cannot be used",
        "set `MURMUR_STORE`, or `store:` in config.yaml, to `postgres://user:password@host/database`",
    ),
    (
        "E-STO-002",
        "a file of the settings store is not its owner's alone",
        "put a regular file of your own with mode 0600 there",
    ),
    ("E-STO-003", "the settings store is gone", "restore it from a backup, or make the database"),
    (
        "E-STO-004",
        "the settings store is damaged",
        "restore it from a backup; to begin with an empty one, move it and its journals away",
    ),
    ("E-STO-005", "the settings store was made by a newer mur", "update mur on this host"),
    ("E-STO-006", "the settings store cannot be written", "make room, or make it writable"),
    (
        "E-STO-007",
        "the settings store is locked by another process",
        "try again; if it stays, end the process that holds it",
    ),
    ("E-STO-008", "the settings store cannot be reached", "check that the server runs and that this host reaches it"),
    ("E-STO-009", "the settings store refuses this user", "check the user, the password and its rights"),
    ("E-STO-010", "the settings store failed", "the message holds the engine's own words"),
    ("E-STO-011", "it is not known whether a change was saved", "look at what is stored before you try again"),
    ("E-STO-012", "somebody else changed the same document meanwhile", "read it again and repeat the change"),
    ("E-STO-013", "a text that the settings store cannot hold", "correct it and save it again"),
    (
        "E-RUN-041",
        "the file of a session's token cannot be made",
        "make room on the disk, or see what stands in its place",
    ),
    (
        "E-RUN-042",
        "a session refuses a change, or has nothing that may be changed",
        "the message holds the session's own words; `mur control show` lists what may be changed",
    ),
    ("E-RUN-050", "the session's address cannot be listened on", "choose another `--bind` or `--port`"),
    ("E-RUN-051", "the system gave no random bytes for the session's tokens", "check that getrandom is available"),
    ("E-RUN-052", "the thread that serves the address did not start", "check the limits on threads and open files"),
    (
        "E-CAP-003",
        "the host cannot back the containment floor",
        "`mur doctor` shows what is missing; lower `capabilities.containment` or `--containment` only if the agent may do \
         what your account may do",
    ),
    (
        "W-CAP-001",
        "the manifest bounds what processes reach, and this host does not enforce it",
        "`mur run --explain-scope` says what holds; set a floor with `capabilities.containment` to refuse instead",
    ),
    (
        "W-CAP-002",
        "a path of `capabilities.filesystem.read`, or a program of `shell.allow`, gives processes nothing",
        "correct it, or remove it",
    ),
    (
        "W-CAP-003",
        "a rule covers something that the kernel could not keep from a process; the reviews of calls stand before it",
        "docs/containment.md says what cannot be masked; grant and keep less below the working directory and `filesystem.read`, or \
         name paths with `exact` and `prefix`; under the floor `sealed` such a process does not start",
    ),
    ("E-DRV-001", "there is no driver of that name", "the drivers are `anthropic`, `openai` and `scripted`"),
    ("E-DRV-002", "the driver's endpoint is no usable URL", "write `gateway.endpoint` as in `https://api.example.com`"),
    ("E-DRV-003", "the model's id is empty", "set `inference.model`"),
    ("E-DRV-004", "a value cannot stand in an HTTP header", "look for a stray newline or blank in the credential"),
    (
        "E-DRV-005",
        "`driver.config` sets a key that the driver sets itself",
        "remove it; the manifest has its own field",
    ),
    ("E-DRV-006", "the scripted driver has no script", "set `driver.config.script`"),
    ("E-DRV-007", "the script cannot be read", "check the path and the file's mode"),
    ("E-DRV-008", "the script is not in its form", "the message names line and column; see docs/models.md"),
    (
        "E-REC-001",
        "the runtime's home is missing or not its owner's alone",
        "set `MURMUR_HOME` or `HOME`; `chmod 700` the directory",
    ),
    ("E-REC-002", "a record cannot be written or read", "make room on the disk, or check the directory's mode"),
    ("E-REC-003", "a record is damaged", "the message names the line; `mur trace verify` says more"),
    ("E-REC-004", "another process writes this record", "wait for it to end"),
    ("E-REC-005", "the key that signs traces cannot be used", "the message says what is wrong with `<home>/trace.key`"),
    ("E-REC-006", "no session, or more than one, is meant", "`mur trace list` shows the ids"),
    (
        "E-REC-007",
        "a trace has no signature that was checked, and `--require-signature` wants one",
        "compare the file with a copy, or name the key of its home with `--public-key`",
    ),
    ("E-CLI-001", "a session's address is no plain http or https URL", "write it as `mur ps` shows it"),
    ("E-CLI-002", "a command line has more words than the command takes", "put a text of several words in quotes"),
    (
        "E-CLI-003",
        "no task of the session, or more than one, is meant",
        "`mur watch --replay` and `mur trace show` name the tasks",
    ),
    (
        "E-CLI-004",
        "the file of `--token-file` cannot be read, is open to others, or holds no token",
        "copy the session's `.door` file with mode 0600, and name the copy",
    ),
    (
        "E-NET-001",
        "a session cannot be reached, or has too much to do",
        "`mur ps` shows the running sessions and their addresses",
    ),
    ("E-NET-002", "what answers at an address is no session", "give the address that `mur ps` or the agent card names"),
    (
        "E-NET-003",
        "a session refuses a request: the token is missing or does not open this",
        "name the session by its id, or set `MURMUR_HOME` to the home that it runs in",
    ),
    ("E-NET-004", "a session answers a request with an error", "the message holds the session's own words"),
    (
        "E-NET-005",
        "the connection to a session broke, and the end was not told",
        "`mur ps` tells whether it runs, `mur trace show` what is on record",
    ),
    ("E-NET-006", "a session or task was told to end, and still does", "`mur ps` and `mur watch` tell when it has"),
    (
        "W-RUN-004",
        "a path of `capabilities.filesystem.read_only` names nothing yet",
        "check its spelling; it is a path in the workdir, not a pattern",
    ),
    (
        "W-RUN-005",
        "`mur check`: the manifest is valid, but a launch would find no home or credential here now",
        "the message says what is missing, and the hint where to put it",
    ),
    (
        "W-RUN-006",
        "the session's address can be reached from other machines",
        "bind 127.0.0.1 behind a proxy with TLS, and declare `network.authentication`",
    ),
    ("W-RUN-007", "spans did not reach their receiver", "the message says why; the trace is complete all the same"),
    (
        "W-RUN-008",
        "the session that is resumed was another capsule's",
        "check that this capsule may do in that workdir what its manifest grants",
    ),
    ("W-RUN-001", "a reply was cut at the output cap", "raise `inference.max_tokens`"),
];
