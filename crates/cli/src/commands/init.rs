//! `mur init`: a starter manifest that runs as it is, once its credential is there.

use std::fs::OpenOptions;
use std::io::Write as _;

use crate::args::InitArgs;
use crate::failure::Failure;

pub(crate) fn run(args: &InitArgs) -> Result<u8, Failure> {
    let bad = |message: String| Failure::unusable(message).code("E-MAN-001");
    std::fs::create_dir_all(&args.path)
        .map_err(|error| bad(format!("cannot make the directory `{}`: {error}", args.path.display())))?;
    let dir = args.path.canonicalize()?;
    let name = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let file = dir.join(manifest::FILE_NAME);
    // `create_new` never writes over a manifest, nor through a link that stands in its place.
    let mut out = OpenOptions::new().write(true).create_new(true).open(&file).map_err(|error| {
        let failure = bad(format!("cannot write `{}`: {error}", file.display()));
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            failure.hint("choose another directory")
        } else {
            failure
        }
    })?;
    out.write_all(manifest::scaffold(&name).as_bytes())?;
    writeln!(std::io::stdout(), "wrote {}", file.display())?;
    Ok(0)
}
