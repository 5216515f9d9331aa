//! `mur init`: a starter manifest that runs as it is, once its credential is there.
//!
//! Nothing that exists is written over, so there is no flag that would.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};

use crate::args::InitArgs;
use crate::failure::Failure;
use crate::terminal::printable;

pub(crate) fn run(args: &InitArgs) -> Result<u8, Failure> {
    let shown = args.path.display();
    if args.path.exists() && !args.path.is_dir() {
        return Err(taken(format!("`{shown}` exists already and is not a directory"), "name another directory"));
    }
    std::fs::create_dir_all(&args.path)
        .map_err(|error| unwritable(format!("cannot make the directory `{shown}`: {error}")))?;
    let dir = args
        .path
        .canonicalize()
        .map_err(|error| unwritable(format!("cannot find the directory `{shown}`: {error}")))?;
    let file = dir.join(manifest::FILE_NAME);
    let failed = |error: std::io::Error| unwritable(format!("cannot write `{}`: {error}", file.display()));
    // `create_new` never writes over a manifest, nor through a link that stands in its place.
    let mut out = OpenOptions::new().write(true).create_new(true).open(&file).map_err(|error| {
        if error.kind() == ErrorKind::AlreadyExists {
            taken(format!("`{}` exists already", file.display()), "name another directory, or move that file away")
        } else {
            failed(error)
        }
    })?;
    let wanted = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = manifest::scaffold_name(&wanted);
    if let Err(error) = out.write_all(manifest::scaffold(&name).as_bytes()) {
        // Half a manifest would stand in the way of the next try.
        let _ = std::fs::remove_file(&file);
        return Err(failed(error));
    }
    writeln!(std::io::stdout(), "wrote {}", file.display())?;
    if name != wanted {
        writeln!(
            anstream::stderr(),
            "note: `{}` cannot be a capsule's name (a-z, 0-9, `-`), so it is called `{name}`; change `name:` as you like",
            printable(&wanted)
        )?;
    }
    Ok(0)
}

fn taken(message: String, hint: &str) -> Failure {
    Failure::unusable(message).code("E-INI-001").hint(hint)
}

fn unwritable(message: String) -> Failure {
    Failure::unusable(message).code("E-INI-002").hint("name a directory that you can write")
}
