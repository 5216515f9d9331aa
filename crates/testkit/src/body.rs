//! A response body that follows a script: pieces, gates, a break.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::Gate;
use crate::turn::{Ending, Split, Turn};

/// The connection is to break here.
#[derive(Debug)]
pub(crate) struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the script breaks the connection here")
    }
}

impl std::error::Error for Broken {}

/// One step of a scripted body.
#[derive(Debug)]
pub(crate) enum Piece {
    Data(Bytes),
    Wait(Gate),
    Break,
}

/// A body that is sent at once, or piece by piece.
#[derive(Debug)]
pub(crate) enum ScriptBody {
    Full(Option<Bytes>),
    Pieces(mpsc::Receiver<Result<Bytes, Broken>>),
}

impl ScriptBody {
    /// Plays the pieces on a task of its own; `abandoned` is called when nobody reads any more.
    pub(crate) fn play(pieces: Vec<Piece>, abandoned: impl FnOnce() + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            for piece in pieces {
                let gone = match piece {
                    Piece::Data(data) => sender.send(Ok(data)).await.is_err(),
                    Piece::Break => sender.send(Err(Broken)).await.is_err(),
                    Piece::Wait(gate) => tokio::select! {
                        () = gate.wait() => false,
                        () = sender.closed() => true,
                    },
                };
                if gone {
                    abandoned();
                    return;
                }
            }
        });
        Self::Pieces(receiver)
    }
}

impl Body for ScriptBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.get_mut() {
            Self::Full(data) => Poll::Ready(data.take().map(|data| Ok(Frame::data(data)))),
            Self::Pieces(receiver) => receiver.poll_recv(cx).map(|piece| piece.map(|data| data.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(data) => SizeHint::with_exact(data.as_ref().map_or(0, |data| data.len() as u64)),
            Self::Pieces(_) => SizeHint::default(),
        }
    }
}

/// Cuts a rendered body where the turn says so; one plain piece stays one.
pub(crate) fn pieces(turn: &Turn, body: Bytes) -> Vec<Piece> {
    let (body, broken) = match turn.ending {
        Ending::CutAt(at) => (body.slice(..at.min(body.len())), false),
        Ending::ResetAt(at) => (body.slice(..at.min(body.len())), true),
        Ending::Whole | Ending::Error { .. } => (body, false),
    };
    let mut cuts: Vec<usize> = match &turn.split {
        Split::Never => Vec::new(),
        Split::Every(step) => (*step..body.len()).step_by(*step).collect(),
        Split::At(positions) => positions.iter().copied().filter(|at| (1..body.len()).contains(at)).collect(),
    };
    let gate_at = turn.midway.as_ref().map(|(at, _)| (*at).min(body.len()));
    if let Some(at) = gate_at {
        cuts.push(at);
        cuts.sort_unstable();
        cuts.dedup();
    }
    cuts.push(body.len());

    let mut pieces = Vec::new();
    let mut from = 0;
    for to in cuts {
        if to > from {
            pieces.push(Piece::Data(body.slice(from..to)));
        }
        if let (Some(at), Some((_, gate))) = (gate_at, &turn.midway)
            && at == to
            && !pieces.iter().any(|piece| matches!(piece, Piece::Wait(_)))
        {
            pieces.push(Piece::Wait(gate.clone()));
        }
        from = from.max(to);
    }
    if broken {
        pieces.push(Piece::Break);
    }
    pieces
}
