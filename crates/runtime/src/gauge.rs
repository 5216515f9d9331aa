//! How many tokens a request is, without a tokenizer: from its bytes, corrected by what each reply says.
//!
//! A tokenizer takes 100 ms to load and 40 MB to hold, and is right for one provider alone. So the reply to
//! a request says what that request was, and only what came since is estimated; the estimate errs high,
//! because a request that is admitted must fit. Images are counted apart: their tokens have nothing to do
//! with their bytes.

/// Bytes per token before the first reply has said better.
const FIRST_GUESS: f64 = 3.0;
/// The share of the seen bytes per token that is counted on for what comes.
const MARGIN: f64 = 0.9;
/// What an image costs at the providers' usual sizes, in tokens.
const IMAGE: u64 = 2000;

/// What a request weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Size {
    /// Bytes of the body, images left out.
    pub(crate) bytes: usize,
    /// How many images it holds.
    pub(crate) images: usize,
}

/// A request whose tokens its reply told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Anchor {
    size: Size,
    tokens: u64,
}

/// What is known of one model's tokens.
#[derive(Debug, Clone)]
pub(crate) struct Gauge {
    bytes_per_token: f64,
}

impl Default for Gauge {
    fn default() -> Self {
        Self { bytes_per_token: FIRST_GUESS }
    }
}

impl Gauge {
    /// The tokens of a request that has grown since `anchor`, or about which nothing was told yet.
    pub(crate) fn tokens(&self, size: Size, anchor: Option<&Anchor>) -> u64 {
        let (from, told) = anchor.map_or((Size::default(), 0), |anchor| (anchor.size, anchor.tokens));
        let text = self.of_text(size.bytes.saturating_sub(from.bytes));
        told.saturating_add(text).saturating_add(of_images(size.images.saturating_sub(from.images)))
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate"
    )]
    fn of_text(&self, bytes: usize) -> u64 {
        (bytes as f64 / self.bytes_per_token).ceil() as u64
    }

    /// How many bytes of text so many tokens are.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate"
    )]
    pub(crate) fn bytes(&self, tokens: u64) -> usize {
        (tokens as f64 * self.bytes_per_token) as usize
    }

    /// What an image weighs, in bytes of text.
    pub(crate) fn image_bytes(&self) -> usize {
        self.bytes(IMAGE)
    }

    /// Takes what a reply says of its request; nothing is learned from a provider that does not count.
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    pub(crate) fn learn(&mut self, size: Size, input_tokens: u64) -> Option<Anchor> {
        if input_tokens == 0 {
            return None;
        }
        let of_text = input_tokens.saturating_sub(of_images(size.images)).max(1);
        // A provider that counts nothing useful must not make every request look free.
        let seen = (size.bytes as f64 / of_text as f64).clamp(1.0, 8.0);
        self.bytes_per_token = (seen * MARGIN).max(1.0);
        let least = u64::try_from(size.bytes / 8).unwrap_or(u64::MAX);
        Some(Anchor { size, tokens: input_tokens.max(least) })
    }
}

fn of_images(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX).saturating_mul(IMAGE)
}

#[cfg(test)]
mod tests {
    use super::{Gauge, Size};

    fn text(bytes: usize) -> Size {
        Size { bytes, images: 0 }
    }

    #[test]
    fn a_reply_corrects_what_is_estimated() {
        let mut gauge = Gauge::default();
        assert_eq!(gauge.tokens(text(3000), None), 1000, "a first guess errs high");
        let anchor = gauge.learn(text(3000), 600).unwrap();
        assert_eq!(gauge.tokens(text(3000), Some(&anchor)), 600, "what was told stands");
        assert_eq!(gauge.tokens(text(3450), Some(&anchor)), 700, "450 bytes at 4.5 bytes a token");
        assert_eq!(gauge.tokens(text(450), None), 100, "and another request is estimated as this one was");
    }

    #[test]
    fn what_a_provider_says_is_believed_within_reason() {
        let mut gauge = Gauge::default();
        assert!(gauge.learn(text(8000), 0).is_none(), "it does not count");
        assert_eq!(gauge.tokens(text(3000), None), 1000);
        let anchor = gauge.learn(text(8000), 1).unwrap();
        assert_eq!(gauge.tokens(text(8000), Some(&anchor)), 1000, "no request looks free");
        let anchor = gauge.learn(text(100), 5000).unwrap();
        assert_eq!(gauge.tokens(text(200), Some(&anchor)), 5100, "no more than a token a byte is added");
    }

    #[test]
    fn an_image_does_not_count_by_its_bytes() {
        let mut gauge = Gauge::default();
        let with_image = Size { bytes: 300, images: 1 };
        assert_eq!(gauge.tokens(with_image, None), 2100);
        let anchor = gauge.learn(with_image, 2075).unwrap();
        assert_eq!(gauge.tokens(text(360), None), 100, "75 tokens were the text's: 4 bytes each, less the margin");
        assert_eq!(gauge.tokens(Size { bytes: 300, images: 2 }, Some(&anchor)), 4075);
    }
}
