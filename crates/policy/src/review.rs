//! Review before dispatch, and review again at the point of effect.
//!
//! The first review gives an [`Approved`], with which nothing can be done but to ask again: right before
//! the execution, [`Approved::renew`] fetches the rules anew and gives the [`Permit`] that executors take,
//! so no execution can rest on rules that were read earlier. The permit carries the reviewed action itself
//! and is consumed by the execution. Each concrete target is then judged on what the kernel says it is:
//! a swap between the reviews gains nothing.

mod gated;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use fence::RuntimeWords;
use gated::TaskGates;

use crate::boundaries::{Boundaries, InMemory, Unreadable};
use crate::compiled::{CommandFinding, Compiled, PathFinding};
use crate::connect::{ClearedCall, Connectors, FixedConnections, Standing, judge};
use crate::links::{FileId, LinkIndex};
use crate::shell::Analysis;
use crate::{Action, Effect, Match, Operation, Projection, Rules, Target, Tree};

/// Which of the two reviews spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before dispatch.
    Propose,
    /// At the point of effect.
    Execute,
}

/// One reason against an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// A stable code.
    pub code: &'static str,
    /// A sentence for the model and the operator; an operator's own words where a rule has some.
    pub reason: Cow<'static, str>,
    /// The operator's rule that matched, if it was one.
    pub rule_id: Option<Arc<str>>,
}

const HARD_BLOCK: &str = "hard_policy_block:user_configured_hard_block";
const UNREADABLE: &str = "hard_policy_block:boundaries_unreadable";
const NOT_ANALYZABLE: &str = "hard_policy_block:command_not_analyzable";
const PATH_UNCLEAR: &str = "hard_policy_block:path_not_resolvable";
const MAY_RUN: &str = "it is not run plainly, but given to a program that may run it";
const NOT_REVIEWED: &str = "the step is not part of what was reviewed";
pub(crate) const UNRESOLVABLE: &str = "the path's links cannot be followed, so no rule can be tried on where it leads";
pub(crate) const UNINDEXED: &str = "it may be one of so many files that no rule can be tried on each of them";

impl Blocker {
    pub(crate) fn new(code: &'static str, reason: &'static str) -> Self {
        Self { code, reason: Cow::Borrowed(reason), rule_id: None }
    }

    fn rule(matched: Match) -> Self {
        let reason = match matched.reason {
            Some(reason) if !reason.trim().is_empty() => Cow::Owned(reason.to_string()),
            _ => Cow::Borrowed("a rule of the operator forbids it"),
        };
        Self { code: HARD_BLOCK, reason, rule_id: Some(matched.id) }
    }

    fn path(finding: PathFinding) -> Self {
        match finding {
            PathFinding::Rule(matched) => Self::rule(matched),
            PathFinding::Unresolvable => Self::new(PATH_UNCLEAR, UNRESOLVABLE),
            PathFinding::Unindexed => Self::new(PATH_UNCLEAR, UNINDEXED),
        }
    }

    fn command(finding: CommandFinding) -> Self {
        match finding {
            CommandFinding::Rule(matched) => Self::rule(matched),
            CommandFinding::MayRun(matched) => {
                let rule = Self::rule(matched);
                Self { reason: Cow::Owned(format!("{}; {MAY_RUN}", rule.reason)), ..rule }
            }
            CommandFinding::NotAnalyzable(why) => Self {
                code: NOT_ANALYZABLE,
                reason: Cow::Owned(format!(
                    "the command cannot be judged by the operator's rules about commands: {why}; write it plainly"
                )),
                rule_id: None,
            },
        }
    }

    fn unreadable() -> Self {
        Self::new(UNREADABLE, "the operator's rules cannot be read, so nothing that they could govern may run")
    }

    fn unconnected() -> Self {
        Self::new(UNREADABLE, "the operator's connections and grants cannot be read, so none of their tools is called")
    }

    fn standing(standing: Standing) -> Option<Self> {
        standing.code().map(|code| Self::new(code, standing.reason()))
    }
}

/// A no, with every reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    phase: Phase,
    blockers: Vec<Blocker>,
}

impl Denial {
    fn new(phase: Phase, blockers: Vec<Blocker>) -> Self {
        Self { phase, blockers }
    }

    fn execute(blocker: Blocker) -> Self {
        Self::new(Phase::Execute, vec![blocker])
    }

    /// Which review said no.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Why.
    #[must_use]
    pub fn blockers(&self) -> &[Blocker] {
        &self.blockers
    }

    /// The ids of the operator's rules that matched.
    pub fn rule_ids(&self) -> impl Iterator<Item = &str> {
        self.blockers.iter().filter_map(|blocker| blocker.rule_id.as_deref())
    }

    /// What the model is told.
    pub fn words(&self, tool: &str) -> RuntimeWords {
        let mut words = RuntimeWords::new("the call to `").echo(tool).text("` was blocked: ");
        for (index, blocker) in self.blockers.iter().enumerate() {
            if index > 0 {
                words = words.text("; ");
            }
            words = match &blocker.reason {
                Cow::Borrowed(reason) => words.text(reason),
                Cow::Owned(reason) => words.echo(reason),
            };
            words = words.text(" [").text(blocker.code);
            if let Some(id) = &blocker.rule_id {
                words = words.text(", rule `").echo(id).text("`");
            }
            words = words.text("]");
        }
        match self.phase {
            Phase::Propose => words.text(". Nothing ran."),
            Phase::Execute => words.text(". The blocked step did not run."),
        }
    }
}

/// The policy of one session.
#[derive(Debug, Clone)]
pub struct Policy {
    rules: Arc<Rules>,
    sources: Sources,
    gates: TaskGates,
}

/// Where everything comes from that is read anew at each review.
#[derive(Debug, Clone)]
struct Sources {
    boundaries: Arc<dyn Boundaries>,
    connectors: Arc<dyn Connectors>,
    agent: Arc<str>,
}

/// What a review found.
#[derive(Debug)]
#[must_use]
pub enum Review {
    /// The action may be tried.
    Allowed(Approved),
    /// It may not; the action comes back for the record.
    Denied(Action, Denial),
}

impl Policy {
    /// A policy of these rules, without an operator's hard blocks.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self::with_boundaries(rules, Arc::new(InMemory::empty()))
    }

    /// A policy of these rules and of the hard blocks that the source gives at each review.
    #[must_use]
    pub fn with_boundaries(rules: Rules, boundaries: Arc<dyn Boundaries>) -> Self {
        let sources = Sources { boundaries, connectors: Arc::new(FixedConnections::none()), agent: "".into() };
        Self { rules: Arc::new(rules), sources, gates: TaskGates::default() }
    }

    /// The same with the connections and grants of this agent, which the source gives at each review.
    #[must_use]
    pub fn with_connectors(mut self, agent: &str, connectors: Arc<dyn Connectors>) -> Self {
        (self.sources.agent, self.sources.connectors) = (agent.into(), connectors);
        self
    }

    /// The rules that were fixed at the launch.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Judges an action before anything of it is done.
    pub async fn review(&self, action: Action) -> Review {
        let case = Case::new(action, Arc::clone(&self.rules), self.gates.clone());
        match case.judge(&self.sources, Phase::Propose).await {
            Ok(_) => Review::Allowed(Approved { case, sources: self.sources.clone() }),
            Err(denial) => Review::Denied(case.action, denial),
        }
    }
}

/// An action with what is known of it whatever the rules.
#[derive(Debug)]
struct Case {
    action: Action,
    /// For each effect that is a command, what was found in it.
    analyses: Vec<OnceLock<Analysis>>,
    rules: Arc<Rules>,
    gates: TaskGates,
}

impl Case {
    fn new(action: Action, rules: Arc<Rules>, gates: TaskGates) -> Self {
        let analyses = action.effects.iter().map(|_| OnceLock::new()).collect();
        Self { action, analyses, rules, gates }
    }

    /// Fetches the rules and judges every effect by them.
    async fn judge(&self, sources: &Sources, phase: Phase) -> Result<Judged, Denial> {
        let links = LinkIndex::new(self.rules.root());
        // What touches nothing, no rule could govern.
        if self.action.effects.is_empty() {
            return Ok(Judged { compiled: Arc::new(Compiled::empty()), links, call: None });
        }
        let compiled = match sources.boundaries.current().await {
            Ok(compiled) => compiled,
            Err(Unreadable { .. }) => return Err(Denial::new(phase, vec![Blocker::unreadable()])),
        };
        let (call, mut blockers) = self.connected(sources).await;
        for (effect, analysis) in self.action.effects.iter().zip(&self.analyses) {
            self.effect(effect, analysis, &compiled, &links, &mut blockers);
        }
        if blockers.is_empty() { Ok(Judged { compiled, links, call }) } else { Err(Denial::new(phase, blockers)) }
    }

    /// Judges the call of a connection's tool, if the action is one: there is one at the most.
    async fn connected(&self, sources: &Sources) -> (Option<ClearedCall>, Vec<Blocker>) {
        let called = self.action.effects.iter().find_map(|effect| match &effect.target {
            Target::Connected { provider, tool } => Some((provider.as_str(), tool.as_str())),
            Target::Path(_) | Target::Command(_) | Target::Argv(_) => None,
        });
        let Some(called) = called else { return (None, Vec::new()) };
        match judge(sources.connectors.as_ref(), &sources.agent, called).await {
            Ok(Ok(call)) => (Some(call), Vec::new()),
            Ok(Err(standing)) => (None, Blocker::standing(standing).into_iter().collect()),
            Err(Unreadable { .. }) => (None, vec![Blocker::unconnected()]),
        }
    }

    fn effect(
        &self,
        effect: &Effect,
        analysis: &OnceLock<Analysis>,
        compiled: &Compiled,
        links: &LinkIndex,
        blockers: &mut Vec<Blocker>,
    ) {
        let operation = effect.operation;
        match &effect.target {
            Target::Path(path) => {
                blockers.extend(self.rules.judge(operation, path));
                blockers.extend(compiled.path(operation, path, links).map(Blocker::path));
            }
            Target::Command(_) | Target::Argv(_) if compiled.is_empty() => {}
            Target::Command(text) => {
                let analysis = analysis.get_or_init(|| Analysis::of_text(text, self.cwd(), self.rules.operator_home()));
                blockers.extend(command(analysis, compiled, links, &self.rules));
            }
            Target::Argv(argv) => {
                let analysis = analysis.get_or_init(|| Analysis::of_argv(argv, self.cwd(), self.rules.operator_home()));
                blockers.extend(command(analysis, compiled, links, &self.rules));
            }
            // It has been judged, by grants and not by rules.
            Target::Connected { .. } => {}
        }
    }

    /// The directory in which the action's command starts.
    fn cwd(&self) -> &Path {
        let place = self.action.effects.iter().find_map(|effect| match &effect.target {
            Target::Path(path) if effect.operation == Operation::Execute => Some(path.as_path()),
            Target::Path(_) | Target::Command(_) | Target::Argv(_) | Target::Connected { .. } => None,
        });
        place.unwrap_or(self.rules.root())
    }
}

/// What a review has read, for those who do what it allows.
struct Judged {
    compiled: Arc<Compiled>,
    links: LinkIndex,
    call: Option<ClearedCall>,
}

/// What the operator's rules say about a command and the paths that it names.
fn command(analysis: &Analysis, compiled: &Compiled, links: &LinkIndex, rules: &Rules) -> Vec<Blocker> {
    let own = compiled.command(analysis).map(Blocker::command);
    let paths = compiled.command_paths(analysis, links, rules.search_directories()).into_iter().map(Blocker::path);
    let mut blockers: Vec<Blocker> = Vec::new();
    for blocker in own.into_iter().chain(paths) {
        if !blockers.contains(&blocker) {
            blockers.push(blocker);
        }
    }
    blockers
}

/// An action that the first review let pass. It allows nothing yet: see [`Approved::renew`].
#[derive(Debug)]
#[must_use]
pub struct Approved {
    case: Case,
    sources: Sources,
}

impl Approved {
    /// What was reviewed.
    #[must_use]
    pub fn action(&self) -> &Action {
        &self.case.action
    }

    /// Judges the action again, by the rules as they are now. This is to be done right before it runs.
    ///
    /// # Errors
    /// The denial, when the rules have changed or cannot be read any more.
    pub async fn renew(self) -> Result<Permit, Denial> {
        let Judged { compiled, links, call } = self.case.judge(&self.sources, Phase::Execute).await?;
        Ok(Permit { case: self.case, sources: self.sources, compiled, links, call })
    }
}

/// The right to do one reviewed action, once. Neither cloneable nor loadable.
#[derive(Debug)]
#[must_use]
pub struct Permit {
    case: Case,
    sources: Sources,
    compiled: Arc<Compiled>,
    links: LinkIndex,
    call: Option<ClearedCall>,
}

/// The right to one concrete effect. The primitives that touch files or start processes demand it.
#[derive(Debug)]
pub struct Cleared {
    operation: Operation,
    path: PathBuf,
    /// For a process: what holds for all that it does.
    rules: Option<(Arc<Rules>, Arc<Compiled>)>,
}

impl Cleared {
    /// What may be done.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The real path to which it may be done: for a process, its program.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the kernel is to keep from the process, by the rules that it was cleared by. `roots` are the directories
    /// that the process can reach besides the system's own, as real paths: patterns are tried on the names below them.
    #[must_use]
    pub fn projection(&self, tree: &mut Tree, roots: &[PathBuf]) -> Projection {
        match &self.rules {
            Some((rules, compiled)) => Projection::new(rules, compiled, tree, roots),
            None => Projection::default(),
        }
    }
}

impl Permit {
    /// What was reviewed.
    #[must_use]
    pub fn action(&self) -> &Action {
        &self.case.action
    }

    /// The directory under which relative paths are taken.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.case.rules.root()
    }

    /// Judges the action anew after a pause in its execution, such as a question to the operator.
    ///
    /// # Errors
    /// As [`Approved::renew`].
    pub async fn renew(self) -> Result<Self, Denial> {
        Approved { case: self.case, sources: self.sources }.renew().await
    }

    /// Judges an operation on a path as the kernel knows it, all links resolved.
    ///
    /// # Errors
    /// The denial, when a rule forbids it or the reviewed action holds no such operation.
    pub fn confirm_path(&self, operation: Operation, real: &Path) -> Result<Cleared, Denial> {
        match self.path_blocker(operation, real) {
            None => Ok(Cleared { operation, path: real.to_owned(), rules: None }),
            Some(blocker) => Err(Denial::execute(blocker)),
        }
    }

    /// Judges an operation on the content of a file that is held open, by its real path and by its other
    /// names. Whatever reads a file, or writes into one, asks this; what replaces a name need not.
    ///
    /// # Errors
    /// As [`Permit::confirm_path`].
    pub fn confirm_file(&self, operation: Operation, real: &Path, node: FileId) -> Result<Cleared, Denial> {
        let cleared = self.confirm_path(operation, real)?;
        match self.compiled.linked(operation, real, node, &self.links) {
            None => Ok(cleared),
            Some(finding) => Err(Denial::execute(Blocker::path(finding))),
        }
    }

    fn path_blocker(&self, operation: Operation, real: &Path) -> Option<Blocker> {
        let reviewed = |effect: &Effect| effect.operation == operation && matches!(effect.target, Target::Path(_));
        if !self.case.action.effects.iter().any(reviewed) {
            return Some(Blocker::new("not_reviewed", NOT_REVIEWED));
        }
        let fixed = self.case.rules.judge(operation, real);
        fixed.or_else(|| self.compiled.real(operation, real).map(Blocker::rule))
    }

    /// The call of a connection's tool that was reviewed, with the connection and the grant as they were read right
    /// before this permit was given.
    ///
    /// # Errors
    /// The denial, when the reviewed action is no such call.
    pub fn confirm_call(&self) -> Result<&ClearedCall, Denial> {
        self.call.as_ref().ok_or_else(|| Denial::execute(Blocker::new("not_reviewed", NOT_REVIEWED)))
    }

    /// Judges the call of a connection's tool for the last time, right before it is sent: while a server starts, the
    /// operator may have taken back what it rests on.
    ///
    /// # Errors
    /// As [`Permit::confirm_call`], and when the call may not be made any more.
    pub async fn reconfirm_call(&self) -> Result<ClearedCall, Denial> {
        let blockers = match self.confirm_call()?.renewed(self.sources.connectors.as_ref()).await {
            Ok(Ok(call)) => return Ok(call),
            Ok(Err(standing)) => Blocker::standing(standing).into_iter().collect(),
            Err(Unreadable { .. }) => vec![Blocker::unconnected()],
        };
        Err(Denial::new(Phase::Execute, blockers))
    }

    /// The denial of a call whose tool turned out, at its server, to be another one than was granted.
    #[must_use]
    pub fn changed(&self) -> Denial {
        Denial::new(Phase::Execute, Blocker::standing(Standing::ToolChanged).into_iter().collect())
    }

    /// Judges the start of a program: its resolved path, its arguments (program first) and its real
    /// working directory.
    ///
    /// # Errors
    /// The denial, when a rule forbids it or the reviewed action starts no process.
    pub fn confirm_process<S: AsRef<OsStr>>(&self, program: &Path, argv: &[S], cwd: &Path) -> Result<Cleared, Denial> {
        // A connection's server may have to be started for the call.
        let starts = |effect: &Effect| !matches!(effect.target, Target::Path(_));
        if !self.case.action.effects.iter().any(starts) {
            return Err(Denial::execute(Blocker::new("not_reviewed", NOT_REVIEWED)));
        }
        let mut blockers: Vec<Blocker> = self.case.rules.judge(Operation::Read, cwd).into_iter().collect();
        if !self.compiled.is_empty() {
            let places = [program, cwd].into_iter();
            let found = places.filter_map(|path| self.compiled.path(Operation::Execute, path, &self.links));
            blockers.extend(found.map(Blocker::path));
            let argv: Vec<Cow<'_, str>> = argv.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
            let analysis = Analysis::of_argv(&argv, cwd, self.case.rules.operator_home());
            blockers.extend(command(&analysis, &self.compiled, &self.links, &self.case.rules));
        }
        if blockers.is_empty() {
            let rules = Some((Arc::clone(&self.case.rules), Arc::clone(&self.compiled)));
            Ok(Cleared { operation: Operation::Execute, path: program.to_owned(), rules })
        } else {
            Err(Denial::new(Phase::Execute, blockers))
        }
    }
}
