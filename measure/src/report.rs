//! Tables of a document.

use std::path::Path;

use anyhow::{Context as _, Result};

/// Result of a measurement.
pub struct Report {
    /// Name of its part in the document.
    pub name: &'static str,
    /// Markdown.
    pub text: String,
    /// True if a figure is worse than allowed.
    pub failed: bool,
}

impl Report {
    /// A benchmark's table, with its circumstances.
    #[must_use]
    pub fn of_bench(name: &'static str, rows: &[Vec<String>]) -> Self {
        Self { name, text: format!("{}\n\n{}", circumstances(), table(rows)), failed: false }
    }

    /// Writes it into the file given after `--write` on the command line, if any.
    ///
    /// # Errors
    /// As [`Report::write`].
    pub fn keep(&self) -> Result<()> {
        match std::env::args().skip_while(|arg| arg != "--write").nth(1) {
            Some(file) => self.write(Path::new(&file)),
            None => Ok(()),
        }
    }

    /// Replaces this part of `file`, between `<!-- name -->` and `<!-- /name -->`.
    ///
    /// # Errors
    /// When the file cannot be read or written, or has no such part.
    pub fn write(&self, file: &Path) -> Result<()> {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let (open, close) = (format!("<!-- {} -->", self.name), format!("<!-- /{} -->", self.name));
        let (before, rest) = text.split_once(&open).with_context(|| format!("{} has no {open}", file.display()))?;
        let (_, after) = rest.split_once(&close).with_context(|| format!("{} has no {close}", file.display()))?;
        std::fs::write(file, format!("{before}{open}\n\n{}\n\n{close}{after}", self.text.trim()))?;
        Ok(())
    }
}

/// A Markdown table; the first row is the heading, and all columns but the first are numbers.
#[must_use]
pub fn table(rows: &[Vec<String>]) -> String {
    let mut lines: Vec<String> = rows.iter().map(|row| format!("| {} |", row.join(" | "))).collect();
    if let Some(heading) = rows.first() {
        lines.insert(1, format!("|---|{}", "---:|".repeat(heading.len().saturating_sub(1))));
    }
    lines.join("\n")
}

/// Machine, day and build of a measurement.
#[must_use]
pub fn circumstances() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let models: Vec<&str> =
        cpuinfo.lines().filter_map(|l| l.strip_prefix("model name")?.split_once(": ")).map(|p| p.1).collect();
    let memory = read("/proc/meminfo");
    let kib: u64 =
        memory.lines().find_map(|l| l.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    let date = std::process::Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    let date = date.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default();
    let build = if cfg!(debug_assertions) { "debug build" } else { "release build" };
    let processor = models.first().copied().unwrap_or(std::env::consts::ARCH);
    format!("{processor}, {} cores, {} GiB, {}; {date}; {build}.", models.len().max(1), kib >> 20, std::env::consts::OS)
}
