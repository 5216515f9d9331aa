//! Conversation records: every message of a context, in the order in which it entered.

mod compact;
mod pair;
mod reader;
mod writer;

pub use compact::compact;
pub use pair::pair_up;
pub use reader::{ConversationReader, message_from_line};
pub use writer::{ConversationWriter, Reopened, message_line};
