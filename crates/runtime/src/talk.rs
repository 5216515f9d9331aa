//! A conversation under way: its record, the messages themselves, and its form for each provider.
//!
//! A message is put into each form once, when it enters; nothing is built anew from turn to turn. Only two
//! things begin a form from the history: a choice that has not been used yet, and a summary that takes the
//! place of older messages. The messages are kept where one of the two may come.

use record::{ConversationWriter, Error as RecordError};
use vocab::{Message, MessageId, Part, Role, Wire};

use crate::engine::Fixed;
use crate::gauge::{Anchor, Gauge, Size};

/// A conversation: its record, and its form for the provider.
pub(crate) struct Talk {
    record: ConversationWriter,
    /// The messages, where a form may have to be begun again.
    history: Option<Vec<Message>>,
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
    /// A conversation that goes on after `history`, with the choice that is in use.
    pub(crate) fn new(fixed: &Fixed, record: ConversationWriter, history: Vec<Message>, choice: usize) -> Self {
        let mut forms: Vec<Option<Form>> = fixed.control.choices().iter().map(|_| None).collect();
        if let Some(place) = forms.get_mut(choice) {
            *place = begin(fixed, choice, &history);
        }
        let images = Images::of(&history);
        let history = (forms.len() > 1 || fixed.compaction.is_some()).then_some(history);
        Self { record, history, forms, choice, images, fresh: Vec::new() }
    }

    /// The form for the choice in use.
    pub(crate) fn wire(&self) -> Option<&dyn Wire> {
        self.form().map(|form| form.wire.as_ref())
    }

    fn form(&self) -> Option<&Form> {
        self.forms.get(self.choice)?.as_ref()
    }

    /// The messages, where they are kept.
    pub(crate) fn history(&self) -> &[Message] {
        self.history.as_deref().unwrap_or_default()
    }

    /// Turns to another choice: its driver is given what it has not seen yet.
    pub(crate) fn turn_to(&mut self, fixed: &Fixed, choice: usize) {
        self.choice = choice;
        if let (Some(place @ None), Some(history)) = (self.forms.get_mut(choice), &self.history) {
            *place = begin(fixed, choice, history);
        }
    }

    pub(crate) fn append(&mut self, message: &Message) -> Result<(), RecordError> {
        self.record.append(message)?;
        for form in self.forms.iter_mut().flatten() {
            form.wire.push(message);
        }
        self.images.add(message);
        if let Some(history) = &mut self.history {
            history.push(message.clone());
        }
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
        if let Some(history) = &mut self.history {
            // They were taken from this very history.
            let _ = record::compact(history, summary, replaces);
            self.images = Images::of(history);
        }
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
fn begin(fixed: &Fixed, choice: usize, history: &[Message]) -> Option<Form> {
    let mut wire = fixed.driver(choice)?.open(&fixed.system, fixed.registry.specs());
    for message in history {
        wire.push(message);
    }
    Some(Form { wire, anchor: None })
}
