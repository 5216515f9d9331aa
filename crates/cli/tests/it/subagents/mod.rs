//! Subagents at the level of `mur`: real processes, real records, a model that plays what each task says.

mod ends;
mod play;
mod rights;
mod work;
