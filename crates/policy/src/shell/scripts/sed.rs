//! The commands of `sed` that start nothing: all but `e`, the flag `e` of `s`, and what is not known here.

use std::iter::Peekable;
use std::str::Chars;

/// Whether a script consists of such commands.
pub(super) fn is_plain(script: &str) -> bool {
    let mut chars = script.chars().peekable();
    while chars.peek().is_some() {
        if command(&mut chars).is_none() {
            return false;
        }
    }
    true
}

/// Goes behind one command.
fn command(chars: &mut Peekable<Chars<'_>>) -> Option<()> {
    skip(chars, |c| c.is_whitespace() || matches!(c, ';' | '{' | '}'));
    if chars.peek().is_none() {
        return Some(());
    }
    address(chars)?;
    skip(chars, |c| matches!(c, ' ' | '\t'));
    if chars.next_if_eq(&',').is_some() {
        skip(chars, |c| matches!(c, ' ' | '\t' | '+' | '~'));
        address(chars)?;
    }
    skip(chars, |c| matches!(c, ' ' | '\t' | '!' | '{'));
    match chars.next()? {
        'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | '=' | 'z' | '}' => {}
        'q' | 'Q' | 'l' => skip(chars, |c| c.is_ascii_digit() || c == ' '),
        's' => {
            let end = chars.next().filter(|c| !c.is_alphanumeric() && !matches!(c, '\\' | '\n'))?;
            delimited(chars, end, true)?;
            delimited(chars, end, false)?;
            skip(chars, |c| c.is_ascii_digit() || matches!(c, 'g' | 'p' | 'i' | 'I' | 'm' | 'M'));
        }
        'y' => {
            let end = chars.next()?;
            delimited(chars, end, false)?;
            delimited(chars, end, false)?;
        }
        'a' | 'i' | 'c' => line(chars),
        // No backslash makes the name of a file go on.
        'r' | 'w' => skip(chars, |c| c != '\n'),
        // What else may be part of a label is not the same everywhere.
        'b' | 't' | 'T' | ':' => {
            skip(chars, |c| matches!(c, ' ' | '\t'));
            let before = chars.clone().count();
            skip(chars, |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
            if before != chars.clone().count() && chars.peek() == Some(&'}') {
                return None;
            }
        }
        _ => return None,
    }
    skip(chars, |c| matches!(c, ' ' | '\t'));
    chars.peek().is_none_or(|c| matches!(c, ';' | '\n' | '}')).then_some(())
}

/// Goes behind an address, if there is one.
fn address(chars: &mut Peekable<Chars<'_>>) -> Option<()> {
    match chars.peek() {
        Some('$') => {
            chars.next();
        }
        Some('/') => {
            chars.next();
            delimited(chars, '/', true)?;
            skip(chars, |c| matches!(c, 'I' | 'M'));
        }
        Some('\\') => return None,
        _ => skip(chars, |c| c.is_ascii_digit() || c == '~'),
    }
    Some(())
}

/// Goes behind the next delimiter that is not escaped, nor in brackets where it is a pattern.
fn delimited(chars: &mut Peekable<Chars<'_>>, end: char, is_pattern: bool) -> Option<()> {
    loop {
        match chars.next()? {
            '\\' => {
                chars.next()?;
            }
            c if c == end => return Some(()),
            '[' if is_pattern => {
                chars.next_if_eq(&'^');
                chars.next_if_eq(&']');
                let mut before = '[';
                loop {
                    let c = chars.next()?;
                    // `[:alpha:]` holds a bracket of its own.
                    if before == '[' && matches!(c, ':' | '.' | '=') {
                        while chars.next()? != c || chars.peek() != Some(&']') {}
                        chars.next();
                    } else if c == ']' {
                        break;
                    }
                    before = c;
                }
            }
            _ => {}
        }
    }
}

/// Goes to the end of a text, which goes on behind a line that ends in a backslash.
fn line(chars: &mut Peekable<Chars<'_>>) {
    while let Some(c) = chars.next_if(|c| *c != '\n') {
        if c == '\\' {
            chars.next();
        }
    }
}

fn skip(chars: &mut Peekable<Chars<'_>>, what: impl Fn(char) -> bool) {
    while chars.next_if(|c| what(*c)).is_some() {}
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn what_can_start_a_program_is_told_from_what_cannot() {
        for script in [
            "s/a/b/",
            "s|a/b|c|g;s,x,y,2p",
            "1,5p",
            "$d",
            "/a/,/b/d",
            "/x/!d",
            "/a/{s/b/c/;p}",
            "2q",
            "s/rm/e/g",
            "a\\\ntext",
            "1i e",
            "y/abc/xyz/",
            ":a;N;$!ba;s/\\n/ /g",
            "s/[^/]*$//",
            "s/\\(a\\)/\\1/",
            "",
            "1~2d",
            "/e/p",
        ] {
            assert!(is_plain(script), "{script}");
        }
        for script in [
            "1e rm",
            ":a e rm",
            ":a}s,x\ne rm",
            "b a e rm",
            "w x\\\ne rm",
            "e",
            "s/a/b/e",
            "s/a/b/ge",
            "s/x/rm/;e",
            "$e ls",
            "/a/e ls",
            "1,2{e\n}",
            "W f",
            "s/[/]e/x/e",
            "v",
        ] {
            assert!(!is_plain(script), "{script}");
        }
    }
}
