//! What a tool brought back, on its way to the model: protect, redact, fence, in this order alone.
//!
//! Each step consumes the value of the one before, and only [`Shown`] can be read. So the bytes in the
//! model's request, the stream, the conversation and the trace have one origin.

use fence::{ModelText, RuntimeWords, Source};
use secrets::Redactor;
use vocab::{BoxFuture, Part};

use crate::protected::{ProtectedValues, Taken, Withholding, image_bytes, protect_parts};
use crate::{ClearedCall, Denial, Detached, McpFacts};

/// How a call that was reviewed ended.
#[derive(Debug)]
pub enum Outcome {
    /// The tool ran; this is what it brought back.
    Ran(RawResult),
    /// The second review said no.
    Refused(Denial),
    /// It never reached the tool: the runtime's own words say why.
    NotRun(RuntimeWords),
    /// The tool waits for an answer of whoever sent the task.
    Asks(Question),
    /// The tool's command has not ended and can go on.
    Detached(Box<Detached>),
}

impl From<RawResult> for Outcome {
    fn from(result: RawResult) -> Self {
        Self::Ran(result)
    }
}

/// What a tool asks, and how it goes on with the answer. Dropping it gives the call up.
pub struct Question {
    /// The question, in the tool's words: data, for people.
    pub prompt: String,
    /// Takes the answer.
    pub resume: Box<dyn Resume>,
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Question").field("prompt", &self.prompt).finish_non_exhaustive()
    }
}

impl Question {
    /// The same with handles for marked values, or a sentence in place of what is malformed. It is still to be redacted.
    #[must_use]
    pub fn protect(self, values: &ProtectedValues) -> Self {
        let mut parts = [RawPart::Text(self.prompt)];
        let mut taken = Taken::default();
        let done = protect_parts(&mut parts, false, None, (values, &mut taken));
        let [part] = parts;
        let prompt = match (done, part) {
            (Ok(()), RawPart::Text(prompt)) => prompt,
            _ => {
                values.drop_taken(&taken);
                "the tool asks something that is withheld: it marks a value as sensitive in a form that is not valid"
                    .to_owned()
            }
        };
        Self { prompt, ..self }
    }
}

/// The rest of a call whose tool asked something.
pub trait Resume: Send {
    /// Goes on with this answer.
    fn answer(self: Box<Self>, answer: String) -> BoxFuture<'static, Outcome>;
}

/// In whose voice a result speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// A tool's: data, fenced.
    Tool,
    /// A declared skill's: the capsule author's own guidance, unfenced.
    Skill,
}

/// A piece of a raw result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawPart {
    /// Text.
    Text(String),
    /// An image, base64.
    Image {
        /// Such as `image/png`.
        media_type: String,
        /// Base64 of the image file.
        data: String,
    },
}

/// What a process run leaves for the `shell` line of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellFacts {
    /// The program.
    pub binary: String,
    /// The command text, or the arguments joined for reading.
    pub command: String,
    /// Bytes on stdout and stderr before any cut.
    pub bytes: u64,
    /// The class of containment that its own installation reported; absent when it never began.
    pub containment: Option<&'static str>,
    /// The ids of rules that the kernel did not hold it to, although they cover something that was there.
    pub unmasked: Vec<String>,
}

impl ShellFacts {
    /// Whether the kernel held it to all rules: `full` or `partial`; `None` where it held it to none.
    #[must_use]
    pub fn enforcement(&self) -> Option<&'static str> {
        let word = if self.unmasked.is_empty() { "full" } else { "partial" };
        self.containment.filter(|class| *class != "advisory").map(|_| word)
    }
}

/// What is recorded of a call beside its text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// The process's exit status, where there was a process that exited.
    pub exit_code: Option<i32>,
    /// Whether the result shows less than there was.
    pub truncated: bool,
    /// Set when a process ran.
    pub shell: Option<ShellFacts>,
    /// Set when a connection's tool was called.
    pub mcp: Option<Box<McpFacts>>,
    /// How many values of it stand behind handles.
    pub protected: usize,
    /// Whether its command has not ended: this is what there was of it.
    pub detached: bool,
}

/// A result as the tool made it. Nobody can read it: it can only be protected.
#[derive(Debug)]
#[must_use]
pub struct RawResult {
    parts: Vec<RawPart>,
    is_error: bool,
    voice: Voice,
    source: Option<Source>,
    note: Option<RuntimeWords>,
    facts: Box<Facts>,
    /// The call of a connection's tool that this answers.
    answered_by: Option<Box<ClearedCall>>,
    /// What was taken out of it while it was read.
    taken: Taken,
    /// Where that is kept, if not where the task's values are.
    kept: Option<ProtectedValues>,
}

impl RawResult {
    /// A tool's success.
    pub fn ok(text: impl Into<String>) -> Self {
        Self {
            parts: vec![RawPart::Text(text.into())],
            is_error: false,
            voice: Voice::Tool,
            source: None,
            note: None,
            facts: Box::default(),
            answered_by: None,
            taken: Taken::default(),
            kept: None,
        }
    }

    /// A tool's failure: it ran, and this is its error text.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::ok(text) }
    }

    /// A skill's text.
    pub fn skill(text: impl Into<String>) -> Self {
        Self { voice: Voice::Skill, ..Self::ok(text) }
    }

    /// A result of these parts, in this order.
    pub fn of_parts(parts: Vec<RawPart>, is_error: bool) -> Self {
        Self { parts, is_error, ..Self::ok("") }
    }

    /// Names the source under which it is fenced, where that is not the tool that the model called.
    pub fn from_source(mut self, source: Source) -> Self {
        self.source = Some(source);
        self
    }

    /// Puts a text before the rest.
    pub fn headed(mut self, mut head: String) -> Self {
        match self.parts.first_mut() {
            Some(RawPart::Text(first)) => {
                head.push_str(first);
                *first = head;
            }
            _ => self.parts.insert(0, RawPart::Text(head)),
        }
        self
    }

    /// Adds the runtime's own words, which stand after the closing marker.
    pub fn with_note(mut self, note: RuntimeWords) -> Self {
        self.note = Some(note);
        self
    }

    /// Adds what is recorded beside the text.
    pub fn with_facts(mut self, facts: Facts) -> Self {
        self.facts = Box::new(facts);
        self
    }

    /// Says which call of a connection's tool it answers: what is secret in it depends on that.
    pub fn answered_by(mut self, call: &ClearedCall) -> Self {
        self.answered_by = Some(Box::new(call.clone()));
        self
    }

    /// Adds what a [`ProtectedStream`](crate::ProtectedStream) took out of it already.
    pub fn with_taken(mut self, taken: Taken) -> Self {
        self.taken.join(taken);
        self
    }

    /// Says in which registry that is kept. It is taken over into the task's when the result is protected.
    pub fn kept_in(mut self, values: &ProtectedValues) -> Self {
        self.kept = Some(values.clone());
        self
    }

    /// Replaces marked values by handles. A result with a malformed mark is withheld as a whole, and its handles
    /// are dropped; its values stay redacted.
    pub fn protect(mut self, values: &ProtectedValues) -> Protected {
        if let Some(kept) = self.kept.take() {
            let fault = values.adopt(&kept, &self.taken).err();
            self.taken.fault = self.taken.fault.or(fault);
        }
        let done = match self.taken.fault {
            Some(fault) => Err(fault),
            None => {
                let by = self.answered_by.as_deref();
                protect_parts(&mut self.parts, self.is_error, by, (values, &mut self.taken))
            }
        };
        match done {
            Ok(()) => self.facts.protected = self.taken.handles.len(),
            Err(why) => {
                values.drop_taken(&self.taken);
                self.withhold(why);
            }
        }
        Protected(self)
    }

    fn withhold(&mut self, why: Withholding) {
        let answer = if self.is_error { "error" } else { "result" };
        let words = format!("the tool ran and its {answer} is withheld: {why}");
        (self.parts, self.is_error, self.note, self.voice) = (vec![RawPart::Text(words)], true, None, Voice::Tool);
    }
}

/// A result in which no marked value stands in clear.
#[derive(Debug)]
#[must_use]
pub struct Protected(RawResult);

impl Protected {
    /// Adds the runtime's own words, which stand after the closing marker.
    pub fn with_note(mut self, note: RuntimeWords) -> Self {
        self.0.note = Some(note);
        self
    }

    /// Replaces every value that the session knows to be secret.
    pub fn redact(self, redactor: &Redactor) -> Clean {
        let mut raw = self.0;
        for part in &mut raw.parts {
            match part {
                RawPart::Text(text) if redactor.is_clean(text) => {}
                RawPart::Text(text) => *text = redactor.redact(text).into_string(),
                RawPart::Image { media_type, data } => {
                    if let Some(words) = instead_of(media_type, data, redactor) {
                        *part = RawPart::Text(words);
                    }
                }
            }
        }
        if let Some(shell) = &mut raw.facts.shell {
            shell.command = redactor.redact(&shell.command).into_string();
        }
        Clean(raw)
    }
}

/// What stands in place of an image that must not be shown: a value cannot be taken out of its bytes.
fn instead_of(media_type: &str, data: &str, redactor: &Redactor) -> Option<String> {
    let Some(bytes) = image_bytes(data) else { return Some("[an image that is no base64: withheld]".to_owned()) };
    let is_clean = redactor.is_clean(media_type) && redactor.is_clean_bytes(&bytes) && redactor.is_clean(data);
    (!is_clean).then(|| "[an image that holds a known secret: withheld]".to_owned())
}

/// A result that holds no known secret.
#[derive(Debug)]
#[must_use]
pub struct Clean(RawResult);

impl Clean {
    /// Puts it inside a fence of this source, or of the one that it names itself, or leaves a skill's text as it is.
    pub fn fence(self, source: &Source) -> Shown {
        let raw = self.0;
        let source = raw.source.as_ref().unwrap_or(source);
        let parts = match raw.voice {
            Voice::Tool => fenced(source, raw.parts, raw.note.as_ref()),
            Voice::Skill => raw.parts.into_iter().map(unfenced).collect(),
        };
        Shown { parts, is_error: raw.is_error, facts: *raw.facts }
    }
}

fn unfenced(part: RawPart) -> Part {
    match part {
        RawPart::Text(text) => Part::Text(ModelText::unfenced(fence::Unfenced::Skill, text)),
        RawPart::Image { media_type, data } => Part::Image { media_type, data },
    }
}

/// One block, however many parts there are: all text in front, then the images, then the closer.
fn fenced(source: &Source, parts: Vec<RawPart>, note: Option<&RuntimeWords>) -> Vec<Part> {
    let mut text = String::new();
    let mut images = Vec::new();
    for part in parts {
        match part {
            RawPart::Text(piece) if text.is_empty() => text = piece,
            RawPart::Text(piece) => {
                text.push('\n');
                text.push_str(&piece);
            }
            RawPart::Image { media_type, data } => images.push(Part::Image { media_type, data }),
        }
    }
    if images.is_empty() {
        let whole = match note {
            Some(note) => ModelText::fenced_with_note(source, &text, note),
            None => ModelText::fenced(source, &text),
        };
        return vec![Part::Text(whole)];
    }
    let (opener, closer) = match note {
        Some(note) => ModelText::fenced_around_with_note(source, &text, note),
        None => ModelText::fenced_around(source, &text),
    };
    let mut shown = vec![Part::Text(opener)];
    shown.append(&mut images);
    shown.push(Part::Text(closer));
    shown
}

/// A result as the model, the stream and the records get it.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// What the model reads.
    pub parts: Vec<Part>,
    /// Whether the call failed.
    pub is_error: bool,
    /// What is recorded beside the text.
    pub facts: Facts,
}

impl Shown {
    /// The runtime's own words about a call that never ran.
    #[must_use]
    pub fn runtime(words: RuntimeWords, redactor: &Redactor) -> Self {
        let words = if redactor.is_clean(words.as_str()) {
            words
        } else {
            // Only the model's own call can have brought a secret in here, and it is given none.
            RuntimeWords::new("the call did not run; the message about it held a secret value and is withheld")
        };
        Self { parts: vec![Part::Text(ModelText::runtime(words))], is_error: true, facts: Facts::default() }
    }

    /// The source under which it is fenced, if it is.
    #[must_use]
    pub fn fence(&self) -> Option<&str> {
        self.parts.iter().find_map(|part| match part {
            Part::Text(text) => text.source(),
            Part::Thinking(_) | Part::ToolCall(_) | Part::Image { .. } => None,
        })
    }
}
