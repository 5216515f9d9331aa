//! `mur control`: changes a running session from the host that it runs on.
//!
//! The token is read from its file beside the running record and goes to the address in that record alone. A
//! secret's value comes from standard input: a command line is everybody's to read.

mod ask;
mod told;

use std::io::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use vocab::SessionId;

use crate::args::{SecretArgs, SetArgs, SteeredArgs, SteeredSession};
use crate::client::{Change, Client, DIM, Target, on_interrupt};
use crate::failure::Failure;
use crate::output::Output;
use crate::terminal::printable;

/// How long a session whose stream ended may take to be gone.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn show(args: &SteeredArgs) -> Result<u8, Failure> {
    let client = client(&args.of)?;
    let view = wait(async { Ok(client.view().await?) })?;
    let mut out = if args.json { Output::plain() } else { Output::styled() };
    if args.json {
        out.json(&view)?;
    } else {
        out.write_all(told::view(&view).as_bytes())?;
    }
    out.finish()?;
    Ok(0)
}

pub(crate) fn set(args: &SetArgs) -> Result<u8, Failure> {
    change(&args.of, Change::Set { setting: &args.setting, value: &value(&args.value) })
}

pub(crate) fn secret(args: &SecretArgs) -> Result<u8, Failure> {
    let secret = name(args)?;
    // The session first: nobody types a value for nothing.
    let client = client(&args.of)?;
    let value = ask::secret(secret)?;
    make(&client, Change::Inject { secret, value })
}

pub(crate) fn forget(args: &SecretArgs) -> Result<u8, Failure> {
    change(&args.of, Change::Forget { secret: name(args)? })
}

pub(crate) fn watch(args: &SteeredArgs) -> Result<u8, Failure> {
    let client = client(&args.of)?;
    on_interrupt(|| {})?;
    wait(async {
        let mut events = client.changes().await?;
        let mut out = if args.json { Output::plain() } else { Output::styled() };
        if !args.json {
            let name = printable(client.target().name());
            // A closed stderr does not end the watch.
            let _ = writeln!(anstream::stderr(), "{DIM}watching the changes of {name}{DIM:#}");
        }
        while !out.gone() {
            let Some(frame) = events.next().await? else { break };
            if args.json {
                writeln!(out, "{}", json!({"event": frame.event, "data": frame.data}))?;
            } else {
                out.write_all(told::event(&frame).as_bytes())?;
            }
            out.flush()?;
        }
        let gone = out.gone();
        out.finish()?;
        if gone || super::stop::gone_within(client.target(), PATIENCE).await {
            return Ok(0);
        }
        let failure = Failure::failed("the session ended the stream and goes on").code("E-NET-005");
        Err(failure.hint("watch again; changes that were made meanwhile stand in the trace: `mur trace show`"))
    })
}

fn client(of: &SteeredSession) -> Result<Client, Failure> {
    Ok(Client::new(Target::steered(&of.session)?)?)
}

fn change(of: &SteeredSession, change: Change<'_>) -> Result<u8, Failure> {
    make(&client(of)?, change)
}

fn make(client: &Client, change: Change<'_>) -> Result<u8, Failure> {
    let answer = wait(async { Ok(client.change(change).await?) })?;
    let mut out = Output::styled();
    out.write_all(told::answer(&answer).as_bytes())?;
    out.finish()?;
    Ok(0)
}

fn wait<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// A number where the word is one; no name of a choice begins like one.
fn value(word: &str) -> Value {
    match serde_json::from_str(word) {
        Ok(Value::Number(number)) => Value::Number(number),
        _ => Value::String(word.to_owned()),
    }
}

/// The secret that is meant. What cannot be a name, or a session, may be the value itself in the wrong place: it
/// is not repeated, and goes nowhere.
fn name(args: &SecretArgs) -> Result<&str, Failure> {
    const HINT: &str = "write `mur control secret NAME [SESSION]`; the value comes from standard input";
    let unusable = |message: &str| Err(Failure::unusable(message).hint(HINT));
    let name = args.name.as_str();
    let is_name = name.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_'))
        && !name.starts_with(|first: char| first.is_ascii_digit());
    if name.is_empty() || !is_name {
        return unusable("a secret's name is capital letters, digits and `_`");
    }
    let session = args.of.session.as_str();
    let end = session.strip_prefix('@').unwrap_or(session);
    let is_end = end.len() <= 32 && end.bytes().all(|byte| byte.is_ascii_hexdigit());
    if session.parse::<SessionId>().is_err() && !is_end {
        return unusable("the second word names a session: `@1`, an id, or the end of one");
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{name, value};
    use crate::args::{SecretArgs, SteeredSession};

    #[test]
    fn a_number_is_a_number_and_everything_else_a_word() {
        for (word, expected) in [
            ("2000", json!(2000)),
            ("-1", json!(-1)),
            ("1.5", json!(1.5)),
            ("cheap", json!("cheap")),
            ("null", json!("null")),
            ("true", json!("true")),
            ("\"5\"", json!("\"5\"")),
            ("[5]", json!("[5]")),
            ("", json!("")),
        ] {
            assert_eq!(value(word), expected, "{word}");
        }
    }

    #[test]
    fn what_may_be_the_value_itself_is_not_repeated() {
        let args = |name: &str, session: &str| SecretArgs {
            name: name.into(),
            of: SteeredSession { session: session.into() },
        };
        for (secret, session) in
            [("KEY", "@1"), ("_K9", "a3f5"), ("KEY", "ses_0190a1b2c3d47e5f8a9b0c1d00000001"), ("KEY", "12345678")]
        {
            assert_eq!(name(&args(secret, session)).unwrap(), secret);
        }
        for (secret, session) in
            [("sk-s3cret", "@1"), ("", "@1"), ("9KEY", "@1"), ("KEY", "sk-s3cret"), ("KEY", "s3cret")]
        {
            let failure = format!("{:?}", name(&args(secret, session)).unwrap_err());
            assert!(!failure.contains("s3cret"), "{failure}");
        }
    }
}
