//! A connection that is noticed to be gone while its request is being carried out.
//!
//! A client may end its own half and still wait for its answer, so hyper reads nothing meanwhile, and a client that
//! was killed would keep its place until something is written to it. Here a little is read ahead instead, and kept
//! for later: a connection that was reset fails at once. One that was merely closed looks like a half that has
//! ended, and one whose client has sent more than is kept is not looked at any further; both are noticed by the next
//! write.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// As many bytes are read ahead.
const KEPT: usize = 4 << 10;

/// A connection and what was read of it ahead.
pub(crate) struct Ahead<S> {
    inner: S,
    bytes: Vec<u8>,
    /// Bytes of those that were taken already.
    taken: usize,
    /// Whether the other half has ended after them.
    ended: bool,
}

impl<S> Ahead<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner, bytes: Vec::new(), taken: 0, ended: false }
    }

    /// The connection itself; nobody wants what was read ahead any more.
    pub(crate) fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: AsyncRead + Unpin> Ahead<S> {
    /// Reads what there is, up to what is kept.
    fn look(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while !self.ended && self.bytes.len() < KEPT {
            let mut room = [const { MaybeUninit::uninit() }; KEPT];
            let mut buffer = ReadBuf::uninit(room.get_mut(self.bytes.len()..).unwrap_or_default());
            match Pin::new(&mut self.inner).poll_read(cx, &mut buffer) {
                Poll::Pending => return Ok(()),
                Poll::Ready(outcome) => outcome?,
            }
            self.ended = buffer.filled().is_empty();
            self.bytes.extend_from_slice(buffer.filled());
            // Whoever waits to read them was told by nobody else.
            cx.waker().wake_by_ref();
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Ahead<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let kept = this.bytes.get(this.taken..).unwrap_or_default();
        if !kept.is_empty() {
            let part = kept.get(..buffer.remaining()).unwrap_or(kept);
            buffer.put_slice(part);
            this.taken += part.len();
            if this.taken == this.bytes.len() {
                (this.bytes, this.taken) = (Vec::new(), 0);
            }
            return Poll::Ready(Ok(()));
        }
        if this.ended {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut this.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Ahead<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, bytes)
    }

    /// hyper flushes each time it is woken, also while it waits for an answer.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.inner).poll_flush(cx))?;
        Poll::Ready(this.look(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use proptest::prelude::*;
    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    use super::{Ahead, KEPT};

    /// Reads these pieces one by one; then it has nothing yet, or has ended or broken.
    struct Pieces(VecDeque<Vec<u8>>, Option<Result<(), io::ErrorKind>>);

    impl AsyncRead for Pieces {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            let Self(pieces, then) = self.get_mut();
            match pieces.pop_front() {
                Some(mut piece) => {
                    let rest = piece.split_off(piece.len().min(buffer.remaining()));
                    buffer.put_slice(&piece);
                    if !rest.is_empty() {
                        pieces.push_front(rest);
                    }
                    Poll::Ready(Ok(()))
                }
                None => then.map_or(Poll::Pending, |then| Poll::Ready(then.map_err(io::Error::from))),
            }
        }
    }

    impl AsyncWrite for Pieces {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn flush(ahead: &mut Ahead<Pieces>) -> Poll<Result<(), io::ErrorKind>> {
        let flushed = Pin::new(ahead).poll_flush(&mut Context::from_waker(Waker::noop()));
        flushed.map_err(|error| error.kind())
    }

    #[test]
    fn a_reset_is_seen_and_an_ended_half_is_not_taken_for_one() {
        let after = |then| flush(&mut Ahead::new(Pieces(VecDeque::from([b"GET".to_vec()]), then)));
        assert_eq!(after(Some(Err(io::ErrorKind::ConnectionReset))), Poll::Ready(Err(io::ErrorKind::ConnectionReset)));
        assert_eq!(after(Some(Ok(()))), Poll::Ready(Ok(())));
        assert_eq!(after(None), Poll::Ready(Ok(())));
        // What is kept is bounded, so nobody looks behind it.
        let long = VecDeque::from([vec![b'x'; KEPT]]);
        let mut ahead = Ahead::new(Pieces(long, Some(Err(io::ErrorKind::ConnectionReset))));
        assert_eq!((flush(&mut ahead), ahead.bytes.len()), (Poll::Ready(Ok(())), KEPT));
    }

    proptest! {
        /// `rooms`: how much each read takes; 0 is a flush instead.
        #[test]
        fn every_byte_is_read_once_and_in_order(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..3000), 0..8),
            rooms in prop::collection::vec(prop_oneof![Just(0), 1_usize..5000], 1..6),
        ) {
            let sent = pieces.concat();
            let mut ahead = Ahead::new(Pieces(pieces.into(), Some(Ok(()))));
            let mut read = Vec::new();
            for room in rooms.into_iter().chain([1]).cycle() {
                if room == 0 {
                    prop_assert_eq!(flush(&mut ahead), Poll::Ready(Ok(())));
                    continue;
                }
                let mut bytes = vec![0; room];
                let mut buffer = ReadBuf::new(&mut bytes);
                let polled = Pin::new(&mut ahead).poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer);
                prop_assert!(matches!(polled, Poll::Ready(Ok(()))));
                if buffer.filled().is_empty() {
                    break;
                }
                read.extend_from_slice(buffer.filled());
            }
            prop_assert_eq!(read, sent);
        }
    }
}
