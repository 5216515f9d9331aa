//! The fence as its users see it. Laws that hold for all texts are properties in `laws`; the other
//! modules hold the contract's own cases and each hostile case beside its harmless neighbour.

#![expect(clippy::disallowed_methods, reason = "the tests of `ModelText::restore` call it")]

mod blocks;
mod laws;
mod lookalikes;
mod model_text;
mod streams;
mod texts;
mod words;
