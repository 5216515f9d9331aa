//! `{a,b}` and `{1..3}`: the words that one word becomes, within a bound.

use super::super::scan::Unclear;
use super::reader::Piece;

/// Words that one word's braces may become.
const MAX_WORDS: usize = 256;
const BRACES: Unclear = "its braces expand to too many words";

/// Expands `{a,b}` and `{1..3}`, leftmost first, with a list of what is still to be done.
pub(super) fn braces(pieces: Vec<Piece>, out: &mut Vec<Vec<Piece>>) -> Result<(), Unclear> {
    let mut todo = vec![(pieces, 0)];
    let mut steps = 0;
    while let Some((pieces, from)) = todo.pop() {
        steps += 1;
        if steps > 4 * MAX_WORDS || todo.len() + out.len() > MAX_WORDS {
            return Err(BRACES);
        }
        let open = pieces.iter().skip(from).position(|piece| *piece == Piece::Bare('{')).map(|at| at + from);
        let Some(open) = open else {
            out.push(pieces);
            continue;
        };
        match alternatives(&pieces, open)? {
            None => todo.push((pieces, open + 1)),
            Some((end, alternatives)) => {
                let head = pieces.get(..open).unwrap_or_default();
                let tail = pieces.get(end + 1..).unwrap_or_default();
                // The last one goes first onto the stack, so that the words come in the shell's order.
                todo.extend(alternatives.into_iter().rev().map(|middle| ([head, &middle, tail].concat(), open)));
            }
        }
    }
    Ok(())
}

type Alternatives = Option<(usize, Vec<Vec<Piece>>)>;

/// The alternatives of the brace that opens at `open`, if it is one that expands.
fn alternatives(pieces: &[Piece], open: usize) -> Result<Alternatives, Unclear> {
    let (mut depth, mut current, mut found) = (0_usize, Vec::new(), Vec::new());
    for (at, piece) in pieces.iter().enumerate().skip(open + 1) {
        match piece {
            Piece::Bare('{') => depth += 1,
            Piece::Bare('}') if depth == 0 => {
                if found.is_empty() {
                    return Ok(sequence(&current).map(|words| (at, words)));
                }
                found.push(current);
                return Ok(Some((at, found)));
            }
            Piece::Bare('}') => depth -= 1,
            Piece::Bare(',') if depth == 0 => {
                found.push(std::mem::take(&mut current));
                if found.len() > MAX_WORDS {
                    return Err(BRACES);
                }
                continue;
            }
            Piece::Bare(_) | Piece::Quoted(_) | Piece::Open(..) => {}
        }
        current.push(piece.clone());
    }
    Ok(None)
}

/// `{a..e}` and `{1..9..2}`.
fn sequence(inside: &[Piece]) -> Option<Vec<Vec<Piece>>> {
    let text: Option<String> =
        inside.iter().map(|piece| if let Piece::Bare(c) = piece { Some(*c) } else { None }).collect();
    let text = text.filter(|text| text.contains(".."))?;
    let parts: Vec<&str> = text.split("..").collect();
    let (first, last) = match parts.as_slice() {
        [first, last] | [first, last, _] => (*first, *last),
        _ => return None,
    };
    let single = |text: &str| (text.chars().count() == 1).then(|| text.chars().next()).flatten();
    if let (Ok(from), Ok(to)) = (first.parse::<i64>(), last.parse::<i64>()) {
        let (low, high) = (from.min(to), from.max(to));
        if high.abs_diff(low) >= MAX_WORDS as u64 {
            return Some(vec![vec![Piece::Open(format!("{{{text}}}"), true)]]);
        }
        // A zero in front of one makes all as wide.
        let padded =
            |text: &str| text.trim_start_matches('-').len() > 1 && text.trim_start_matches('-').starts_with('0');
        let width = if padded(first) || padded(last) { first.len().max(last.len()) } else { 0 };
        // Whatever the step, each word is one of these.
        return Some((low..=high).map(|n| format!("{n:0width$}").chars().map(Piece::Bare).collect()).collect());
    }
    let (Some(from), Some(to)) = (single(first), single(last)) else { return None };
    if !(from.is_ascii() && to.is_ascii()) {
        return None;
    }
    Some((from.min(to)..=from.max(to)).map(|c| vec![Piece::Bare(c)]).collect())
}
