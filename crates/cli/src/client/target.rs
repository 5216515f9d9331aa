//! Which session is meant, where it is, and whether its token may go there.

use std::fs::File;
use std::io::Read as _;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use record::{Home, RunningSession, TokenKind};
use reqwest::Url;
use secrets::Secret;

use crate::failure::Failure;
use crate::launch::record_failure;
use crate::terminal::printable;

/// A token is shorter.
const TOKEN_MAX: u64 = 8 << 10;

/// A session to talk to.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) url: Url,
    /// Of a session of this home, for the address in its running record; or what the operator gave for this one.
    pub(super) token: Option<Secret>,
    /// Whether it is on this host, so that a proxy has no part in it: one would read the token.
    pub(super) direct: bool,
    local: Option<(Home, RunningSession)>,
}

impl Target {
    /// The session that a person means: an `http` or `https` URL, or `@1` (the default), an id, the end of one.
    /// A file that he names holds the token to present there, instead of the one of this home.
    pub(crate) fn find(text: Option<&str>, token_file: Option<&Path>) -> Result<Self, Failure> {
        let given = token_file.map(read_token).transpose()?;
        let mut target = match text {
            Some(text) if text.contains("://") => Self::at(text),
            Some(text) if is_host_and_port(text) => Self::at(&format!("http://{text}")),
            _ => {
                let text = text.unwrap_or("@1");
                let home = Home::from_env().map_err(|error| record_failure(&error))?;
                let session = home.find_running(text).map_err(|error| not_found(&home, text, &error))?;
                Self::local(home, session)
            }
        }?;
        if let Some(token) = given {
            // A proxy would read a token that goes its way in clear.
            target.direct |= target.url.scheme() == "http";
            target.token = Some(token);
        }
        Ok(target)
    }

    fn at(text: &str) -> Result<Self, Failure> {
        let url = parse(text)?;
        let home = match Home::from_env() {
            Ok(home) => home,
            // Without a home there is no token either.
            Err(_) => return Ok(Self { url, token: None, direct: false, local: None }),
        };
        let running = home.running().map_err(|error| record_failure(&error))?;
        let session =
            running.into_iter().find(|session| Url::parse(&session.url).is_ok_and(|known| is_same(&url, &known)));
        match session {
            Some(session) => Self::local(home, session),
            None => Ok(Self { url, token: None, direct: false, local: None }),
        }
    }

    /// The address of a running record, without the token.
    pub(crate) fn public(url: &str) -> Result<Self, Failure> {
        Ok(Self { url: parse(url)?, token: None, direct: true, local: None })
    }

    /// A session of this home, with its token.
    pub(crate) fn local(home: Home, session: RunningSession) -> Result<Self, Failure> {
        let token = token(&home, &session, TokenKind::Operator)?.ok_or_else(|| not_running(&session))?;
        Self::with(home, session, token)
    }

    /// A session of this home, with the token of its control surface.
    pub(crate) fn steered(text: &str) -> Result<Self, Failure> {
        let home = Home::from_env().map_err(|error| record_failure(&error))?;
        let session = home.find_running(text).map_err(|error| record_failure(&error))?;
        match token(&home, &session, TokenKind::Control)? {
            Some(token) => Self::with(home, session, token),
            None if home.find_running(session.session_id.as_str()).is_err() => Err(not_running(&session)),
            None => {
                let message = format!("nothing may be changed of the session `{}`", session.session_id);
                Err(Failure::failed(message).code("E-RUN-042").hint("its manifest says what may be, under `control`"))
            }
        }
    }

    fn with(home: Home, session: RunningSession, token: Secret) -> Result<Self, Failure> {
        let url = parse(&session.url)?;
        Ok(Self { url, token: Some(token), direct: true, local: Some((home, session)) })
    }

    /// The session's running record, where it runs in this home.
    pub(crate) fn session(&self) -> Option<&RunningSession> {
        self.local.as_ref().map(|(_, session)| session)
    }

    /// Whether there is a token for it.
    pub(crate) fn is_known(&self) -> bool {
        self.token.is_some()
    }

    /// Whether the session has ended, as far as this home knows.
    pub(crate) fn is_gone(&self) -> bool {
        let Some((home, session)) = &self.local else { return false };
        home.running().is_ok_and(|running| running.iter().all(|other| other.session_id != session.session_id))
    }

    /// How a command line names it.
    pub(crate) fn name(&self) -> &str {
        self.session().map_or(self.url.as_str(), |session| session.session_id.as_str())
    }
}

/// A session's token, if there is one.
fn token(home: &Home, session: &RunningSession, kind: TokenKind) -> Result<Option<Secret>, Failure> {
    match home.token(&session.session_id, kind) {
        Ok(token) => Ok(Some(token)),
        Err(record::Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(record_failure(&error)),
    }
}

fn not_running(session: &RunningSession) -> Failure {
    record_failure(&record::Error::NotRunning { text: session.session_id.to_string() })
}

/// Of a session that does not run: whether it did, and what is left of it.
fn not_found(home: &Home, text: &str, error: &record::Error) -> Failure {
    let gone = matches!(error, record::Error::NotRunning { .. } | record::Error::NoneRunning { .. });
    match home.find_session(text) {
        Ok(session) if gone && !text.starts_with('@') => {
            Failure::unusable(format!("the session `{session}` has ended")).code("E-REC-006").hint(format!(
                "`mur trace show {session}` tells what it did; `mur run PATH --resume {session} --task \"…\"` goes on \
                 with its conversations"
            ))
        }
        _ => record_failure(error),
    }
}

/// An address without its scheme, such as `127.0.0.1:14159`.
fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.trim_end_matches('/').rsplit_once(':') else { return false };
    let of_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    !host.is_empty() && host.bytes().all(of_host) && port.parse::<u16>().is_ok()
}

/// Whether two addresses are one: as parsed, so that a slash at the end makes no difference, and with
/// `localhost` for an address of the loopback interface. Anything else differs.
fn is_same(given: &Url, known: &Url) -> bool {
    let mut named = known.clone();
    let ip = known.host_str().map(|host| host.trim_matches(['[', ']']).parse::<IpAddr>());
    let loopback = matches!(ip, Some(Ok(ip)) if ip.is_loopback());
    given == known || loopback && named.set_host(Some("localhost")).is_ok() && *given == named
}

/// The token in a file that the operator names. One that others can read is theirs as well.
fn read_token(path: &Path) -> Result<Secret, Failure> {
    let refuse = |why: &str, hint: &str| {
        let message = format!("the token file `{}` cannot be used: {why}", printable(&path.to_string_lossy()));
        Failure::unusable(message).code("E-CLI-004").hint(hint)
    };
    let copy = "copy `<home>/running/<session id>.door` of the session, and name the copy";
    let unread = |error: std::io::Error| refuse(&error.to_string(), copy);
    let file = File::open(path).map_err(unread)?;
    let mode = file.metadata().map_err(unread)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(refuse(&format!("others can read it (mode {:o})", mode & 0o777), "`chmod 600` it"));
    }
    let mut text = String::new();
    file.take(TOKEN_MAX).read_to_string(&mut text).map_err(unread)?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refuse("it holds no token", copy));
    }
    Ok(Secret::new(token.to_owned()))
}

fn parse(text: &str) -> Result<Url, Failure> {
    // What stands before an `@` may be a password, so it is not repeated.
    let shown = match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://[hidden]@{rest}"),
        _ => text.to_owned(),
    };
    let refuse = |why: &str| {
        Failure::unusable(format!("`{}` {why}", printable(&shown)))
            .code("E-CLI-001")
            .hint("write a session's address as `mur ps` shows it, such as `http://127.0.0.1:14159`")
    };
    let url = Url::parse(text).map_err(|_| refuse("is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse("is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("holds a user or password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refuse("has a query or a fragment"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::{is_host_and_port, is_same, parse};

    #[test]
    fn an_address_may_lack_its_scheme_and_loopback_has_two_names() {
        for address in ["127.0.0.1:14159", "localhost:1", "[::1]:7", "agents.example:80/"] {
            assert!(is_host_and_port(address), "{address}");
        }
        for other in ["@1", "say: hello", "note:this", "1234", ":80", "a b:80", "h:70000"] {
            assert!(!is_host_and_port(other), "{other}");
        }
        let same = |given, known| is_same(&parse(given).unwrap(), &parse(known).unwrap());
        for (given, known) in [
            ("http://localhost:7", "http://127.0.0.1:7"),
            ("http://localhost:7/", "http://[::1]:7"),
            ("http://127.0.0.1:7/", "http://127.0.0.1:7"),
        ] {
            assert!(same(given, known), "{given}");
        }
        for (given, known) in [
            ("http://localhost:8", "http://127.0.0.1:7"),
            ("https://localhost:7", "http://127.0.0.1:7"),
            ("http://localhost:7/x", "http://127.0.0.1:7"),
            ("http://localhost:7", "http://10.0.0.1:7"),
            ("http://localhost.example:7", "http://127.0.0.1:7"),
        ] {
            assert!(!same(given, known), "{given}");
        }
    }

    #[test]
    fn only_plain_addresses_are_taken_and_no_password_is_repeated() {
        for good in ["http://127.0.0.1:1", "http://127.0.0.1:1/", "https://agents.example/one", "HTTP://[::1]:7"] {
            assert!(parse(good).is_ok(), "{good}");
        }
        assert_eq!(parse("http://h:80").unwrap(), parse("HTTP://H/").unwrap());
        for bad in ["http://", "ftp://h/", "file:///etc", "http://h/?a", "http://h/#a", "http://u:s3cret@h/", "x://"] {
            let failure = format!("{:?}", parse(bad).unwrap_err());
            assert!(failure.contains("E-CLI-001") && !failure.contains("s3cret"), "{failure}");
        }
    }
}
