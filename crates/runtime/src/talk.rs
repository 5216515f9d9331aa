//! A conversation under way: its record, the messages themselves, and its form for each provider.
//!
//! A message is put into each form once, when it enters; nothing is built anew from turn to turn. Only three
//! things begin a form from the history: a choice that has not been used yet, a summary that takes the
//! place of older messages, and a value in it that the session learned to be secret since.

use record::{ConversationWriter, Error as RecordError};
use secrets::Redactor;
use vocab::{Message, MessageId, Part, Role, Wire};

use crate::engine::Fixed;
use crate::gauge::{Anchor, Gauge, Size};
use crate::scrub;

/// A conversation: its record, and its form for the provider.
pub(crate) struct Talk {
    record: ConversationWriter,
    /// The messages, for a form that has to be begun again.
    history: Vec<Message>,
    redactor: Redactor,
    /// How many values the history is known to be free of.
    known: usize,
    /// The form for each driver choice that was used.
    forms: Vec<Option<Form>>,
    choice: usize,
    /// The images of all messages: their base64 stands in every form.
    images: Images,
    /// Messages that entered since the last inference line.
    fresh: Vec<MessageId>,
}

struct Form {
    wire: Box<dyn Wire>,
    /// The last request in this form whose tokens were told.
    anchor: Option<Anchor>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Images {
    bytes: usize,
    count: usize,
}

impl Images {
    fn add(&mut self, message: &Message) {
        for part in &message.content {
            if let Part::Image { data, .. } = part {
                self.bytes = self.bytes.saturating_add(data.len());
                self.count += 1;
            }
        }
    }

    fn of(history: &[Message]) -> Self {
        let mut images = Self::default();
        history.iter().for_each(|message| images.add(message));
        images
    }
}

impl Talk {
    /// A conversation that goes on after `history`. It has no form before the first [`turn_to`](Self::turn_to).
    pub(crate) fn new(fixed: &Fixed, record: ConversationWriter, history: Vec<Message>, redactor: Redactor) -> Self {
        let forms = fixed.control.choices().iter().map(|_| None).collect();
        let images = Images::of(&history);
        Self { record, history, redactor, known: 0, forms, choice: 0, images, fresh: Vec::new() }
    }

    /// The form for the choice in use.
    pub(crate) fn wire(&self) -> Option<&dyn Wire> {
        self.form().map(|form| form.wire.as_ref())
    }

    fn form(&self) -> Option<&Form> {
        self.forms.get(self.choice)?.as_ref()
    }

    /// The messages.
    pub(crate) fn history(&self) -> &[Message] {
        &self.history
    }

    /// Turns to a choice: its driver is given what it has not seen yet, without any value that is known by now.
    pub(crate) fn turn_to(&mut self, fixed: &Fixed, choice: usize) {
        let known = self.redactor.known();
        if known != self.known {
            self.known = known;
            if scrub::history(&mut self.history, &self.redactor) || !self.redactor.is_clean(&fixed.system) {
                self.forms.iter_mut().for_each(|form| *form = None);
            }
        }
        self.choice = choice;
        if let Some(place @ None) = self.forms.get_mut(choice) {
            *place = begin(fixed, choice, &self.history, &self.redactor);
        }
    }

    pub(crate) fn append(&mut self, message: &Message) -> Result<(), RecordError> {
        self.record.append(message)?;
        for form in self.forms.iter_mut().flatten() {
            form.wire.push(message);
        }
        self.images.add(message);
        self.history.push(message.clone());
        // An answer is named by its own inference line.
        if message.role != Role::Assistant {
            self.fresh.push(message.id.clone());
        }
        Ok(())
    }

    /// Puts a summary in the place of these messages: on record, then in the history and in every form.
    pub(crate) fn compact(
        &mut self,
        fixed: &Fixed,
        summary: Message,
        replaces: &[MessageId],
    ) -> Result<(), RecordError> {
        self.record.append_summary(&summary, replaces)?;
        self.fresh.push(summary.id.clone());
        // They were taken from this very history.
        let _ = record::compact(&mut self.history, summary, replaces);
        self.images = Images::of(&self.history);
        self.forms.iter_mut().for_each(|form| *form = None);
        self.turn_to(fixed, self.choice);
        Ok(())
    }

    /// Messages that entered since this was last asked.
    pub(crate) fn take_fresh(&mut self) -> Vec<MessageId> {
        std::mem::take(&mut self.fresh)
    }

    /// The tokens of the next request, system prompt and tools included.
    pub(crate) fn tokens(&self, gauge: &Gauge) -> u64 {
        gauge.tokens(self.size(), self.form().and_then(|form| form.anchor.as_ref()))
    }

    /// Takes what a reply says of the request that it answers; to be told before anything is appended.
    pub(crate) fn told(&mut self, gauge: &mut Gauge, input_tokens: u64) {
        let told = gauge.learn(self.size(), input_tokens);
        if let (Some(form), Some(told)) = (self.forms.get_mut(self.choice).and_then(Option::as_mut), told) {
            form.anchor = Some(told);
        }
    }

    fn size(&self) -> Size {
        let bytes = self.wire().map_or(0, Wire::len).saturating_sub(self.images.bytes);
        Size { bytes, images: self.images.count }
    }
}

/// A conversation in a choice's form.
fn begin(fixed: &Fixed, choice: usize, history: &[Message], redactor: &Redactor) -> Option<Form> {
    let system = redactor.redact(&fixed.system);
    let mut wire = fixed.driver(choice)?.open(system.as_str(), fixed.registry.specs());
    for message in history {
        wire.push(message);
    }
    Some(Form { wire, anchor: None })
}
