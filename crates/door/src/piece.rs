//! The frames that everybody who watches the whole session gets next, put together once for all who are at the same
//! place.
//!
//! A crowd that keeps up is at one place, so one piece is enough. Whoever is elsewhere, has missed frames, or is
//! about to get the last or a long one, puts its own together.

use std::sync::{Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use runtime::Stream;

use crate::feed::{FRAMES, PIECE};

/// The piece that was put together last.
#[derive(Default)]
pub(crate) struct Pieces(Mutex<Option<Piece>>);

struct Piece {
    /// The frame before its first.
    after: u64,
    /// Its last frame.
    upto: u64,
    /// The version of the stream that it was read from.
    version: usize,
    bytes: Bytes,
}

impl Pieces {
    /// All frames after this one as they go out, and the last of them; nothing when they are no matter of one piece.
    pub(crate) fn after(&self, stream: &Stream, after: u64) -> Option<(u64, Bytes)> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (version, newest) = (stream.version(), stream.last());
        let is_it = |piece: &&Piece| (piece.after, piece.upto, piece.version) == (after, newest, version);
        if let Some(piece) = kept.as_ref().filter(is_it) {
            return Some((newest, piece.bytes.clone()));
        }
        let batch = stream.after(after, FRAMES);
        let (first, rest) = batch.frames.split_first().filter(|_| batch.missed == 0)?;
        // One that is about no task is the session's own, and ends the stream.
        let (mut size, mut upto) = (0, after);
        for frame in &batch.frames {
            size += frame.task.is_some().then(|| frame.sse().len()).filter(|more| size + more <= PIECE)?;
            upto = frame.id;
        }
        let bytes = if rest.is_empty() {
            first.sse()
        } else {
            let mut bytes = BytesMut::with_capacity(size);
            batch.frames.iter().for_each(|frame| bytes.extend_from_slice(&frame.sse()));
            bytes.freeze()
        };
        *kept = Some(Piece { after, upto, version, bytes: bytes.clone() });
        Some((upto, bytes))
    }
}
