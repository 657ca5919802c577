//! The file of variables that has the credentials of an import, readable by its owner only: the last one that the
//! configuration names, else a new one beside it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use base::files::Edited;
use base::limits;
use config::{Config, variable_line};

/// The file with its new content.
pub(in crate::cli) struct EnvFile {
    file: Edited,
    content: String,
}

impl EnvFile {
    /// The file with these variables too, and the text of the configuration that names it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn of(
        target: &Path,
        old: &Config,
        variables: &BTreeMap<String, String>,
        text: String,
    ) -> Result<(Self, String), String> {
        let stem = target.file_stem().unwrap_or_default().to_string_lossy();
        let names =
            (1..).map(|number| if number == 1 { format!("{stem}.env") } else { format!("{stem}-{number}.env") });
        let free = || names.map(|name| target.with_file_name(name)).find(|path| !path.exists()).unwrap_or_default();
        let path = old.env_files.last().cloned().unwrap_or_else(free);
        let file =
            Edited::read(&path, limits::ENV_FILE.max as u64).map_err(|error| format!("{}: {error}", path.display()))?;
        let content = String::from_utf8(file.content().unwrap_or_default().to_owned());
        let mut content = content.map_err(|_| format!("{}: it is not text in UTF-8", path.display()))?;
        if !content.is_empty() && !content.ends_with('\n') {
            content.push('\n');
        }
        variables.iter().for_each(|(name, value)| content.push_str(&variable_line(name, value)));
        if !old.env_files.is_empty() {
            return Ok((Self { file, content }, text));
        }
        let head: usize = text.split_inclusive('\n').take_while(|line| line.starts_with('#')).map(str::len).sum();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text = format!("{}env_files = [{name:?}]\n{}", &text[..head], &text[head..]);
        Ok((Self { file, content }, text))
    }

    /// Writes it, and says where the credentials are.
    ///
    /// # Errors
    /// As [`Edited::replace`], with its path.
    pub(in crate::cli) fn write(&self) -> io::Result<String> {
        let file = self.file.path().display();
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("{file}: {error}"));
        self.file.replace_private(self.content.as_bytes()).map_err(failed)?;
        Ok(format!("credentials are in {file}, readable by its owner only; keep it out of version control"))
    }
}
