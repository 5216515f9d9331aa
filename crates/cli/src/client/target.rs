//! Which session is meant, where it is, and whether its token may go there.

use record::{Home, RunningSession, TokenKind};
use reqwest::Url;
use secrets::Secret;

use crate::failure::Failure;
use crate::launch::record_failure;
use crate::terminal::printable;

/// A session to talk to.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) url: Url,
    /// Only with a session of this home, for the address in its running record.
    pub(super) token: Option<Secret>,
    /// Whether it is on this host, so that a proxy has no part in it: one would read the token.
    pub(super) direct: bool,
    local: Option<(Home, RunningSession)>,
}

impl Target {
    /// The session that a person means: an `http` or `https` URL, or `@1` (the default), an id, the end of one.
    pub(crate) fn find(text: Option<&str>) -> Result<Self, Failure> {
        match text {
            Some(text) if text.contains("://") => Self::at(text),
            _ => {
                let home = Home::from_env().map_err(|error| record_failure(&error))?;
                let session = home.find_running(text.unwrap_or("@1")).map_err(|error| record_failure(&error))?;
                Self::local(home, session)
            }
        }
    }

    fn at(text: &str) -> Result<Self, Failure> {
        let url = parse(text)?;
        let home = match Home::from_env() {
            Ok(home) => home,
            // Without a home there is no token either.
            Err(_) => return Ok(Self { url, token: None, direct: false, local: None }),
        };
        let running = home.running().map_err(|error| record_failure(&error))?;
        // Both as parsed, so that a slash at the end makes no difference, and anything else does.
        let session = running.into_iter().find(|session| Url::parse(&session.url).is_ok_and(|known| known == url));
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
    use super::parse;

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
