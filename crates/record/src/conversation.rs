//! Conversation records: every message of a context, in the order in which it entered.

mod compact;
mod pair;
mod reader;
mod writer;

pub use compact::compact;
pub use pair::pair_up;
pub use reader::ConversationReader;
pub use writer::{ConversationWriter, Reopened};
