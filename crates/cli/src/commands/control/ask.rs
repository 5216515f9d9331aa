//! A secret's value from standard input: whole from a pipe, one line that is not shown from a terminal.

use std::io::{Stdin, Write as _, stdin};
use std::sync::Arc;

use rustix::termios::{LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcsetattr};

use crate::client::on_interrupt;
use crate::failure::Failure;

/// More than any secret may have: what is longer need not be read to be refused.
const MOST: usize = 16 << 10;
/// What a terminal passes on of one line; the rest is dropped without a word.
const LINE: usize = 4095;

/// Reads the value.
pub(super) fn secret(name: &str) -> Result<Vec<u8>, Failure> {
    let input = stdin();
    if !isatty(&input) {
        return Ok(read(&input, |_| false)?);
    }
    // A closed stderr leaves the question out.
    let _ = write!(anstream::stderr(), "value of {name}: ");
    let hidden = Arc::new(Hidden::of(input)?);
    let shown_again = Arc::clone(&hidden);
    // Before anything is hidden, so that it never stays so.
    on_interrupt(move || shown_again.restore())?;
    hidden.hide()?;
    let line = read(&hidden.terminal, |line| line.ends_with(b"\n"));
    hidden.restore();
    let mut line = line?;
    if line.len() >= LINE {
        let message = format!("a terminal passes on no more than {LINE} characters of a line");
        return Err(Failure::unusable(message).hint("give the value through a pipe"));
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(line)
}

/// Reads past the buffer of the standard library, which would keep the value: up to the end, or until there is
/// enough.
fn read(input: &Stdin, enough: impl Fn(&[u8]) -> bool) -> std::io::Result<Vec<u8>> {
    // All at once: a buffer that grows leaves copies behind.
    let mut bytes = vec![0; MOST];
    let mut length = 0;
    while let Some(room) = bytes.get_mut(length..).filter(|room| !room.is_empty()) {
        let read = rustix::io::retry_on_intr(|| rustix::io::read(input, &mut *room))?;
        length += read;
        if read == 0 || enough(bytes.get(..length).unwrap_or_default()) {
            break;
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// A terminal that does not show what is typed until it is restored. Whoever waits for an interrupt has it as well,
/// for as long as the process lives.
struct Hidden {
    terminal: Stdin,
    before: Termios,
}

impl Hidden {
    fn of(terminal: Stdin) -> std::io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        Ok(Self { terminal, before })
    }

    fn hide(&self) -> std::io::Result<()> {
        let mut hidden = self.before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        // The line's end is seen, so that what comes next begins a line.
        hidden.local_modes.insert(LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG);
        Ok(tcsetattr(&self.terminal, OptionalActions::Flush, &hidden)?)
    }

    fn restore(&self) {
        // A terminal that is gone shows nothing anyway.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}
