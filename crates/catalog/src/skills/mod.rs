//! Skills: folders with instructions for a task (`SKILL.md`) and files beside them, in the format of Agent Skills.
//!
//! They are read whole and bounded, so that what is listed, digested and served is the same text. Whatever is wrong
//! with one skill leaves that one out, with a note; the others stay.

mod folder;
mod front_matter;
mod of_scripts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::findings::{Finding, Findings, Item};
pub use folder::read;
pub use of_scripts::with_scripts;

/// Name of the file with a skill's instructions.
pub const SKILL_MD: &str = "SKILL.md";

/// One skill.
#[derive(Debug, Clone)]
pub struct Skill {
    /// Name of the skill and of its folder.
    pub name: String,
    /// Its purpose and when to use it, on one line.
    pub description: String,
    /// Front matter as it was written.
    pub front_matter: Map<String, Value>,
    /// Servers that it needs, as it names them.
    pub servers: Vec<String>,
    /// Its files: `SKILL.md`, then the others in order of path.
    pub files: Vec<SkillFile>,
    /// Findings in the texts of its files, in their order.
    pub findings: Vec<Finding>,
}

/// One file of a skill.
#[derive(Debug, Clone)]
pub struct SkillFile {
    /// Path below the skill.
    pub path: String,
    /// Content.
    pub content: Content,
}

/// Content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// UTF-8 text.
    Text(Arc<str>),
    /// Anything else.
    Binary(Arc<[u8]>),
}

impl Content {
    fn of(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => Self::Text(text.into()),
            Ok(text) => Self::Binary(text.into_bytes().into()),
            Err(error) => Self::Binary(error.into_bytes().into()),
        }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }
}

/// Server and tool of each call that a script's lock lists, by the script's wire name; `None` without a lock.
pub type Calls = BTreeMap<String, Option<BTreeSet<(String, String)>>>;

/// All skills, sorted by name. Immutable; read again after an edit.
#[derive(Debug, Clone, Default)]
pub struct Skills {
    /// The skills.
    pub skills: Vec<Skill>,
    /// Skills and files that were left out, by path, with the reason.
    pub left_out: Vec<(String, String)>,
    /// Rights of each script, by its wire name.
    pub calls: Calls,
    digest: String,
}

impl Skills {
    fn new(mut skills: Vec<Skill>, left_out: Vec<(String, String)>) -> Self {
        skills.sort_by(|a, b| a.name.cmp(&b.name));
        let mut digests = String::new();
        for skill in &skills {
            for file in &skill.files {
                let content = stubgen::digest(file.content.bytes());
                digests.push_str(&format!("{}/{} {content}\n", skill.name, file.path));
            }
        }
        left_out.iter().for_each(|(path, reason)| digests.push_str(&format!("{path}: {reason}\n")));
        Self { skills, left_out, calls: Calls::new(), digest: stubgen::digest(&digests) }
    }

    /// The same skills with the tools that scripts call.
    #[must_use]
    pub fn with_calls(self, calls: Calls) -> Self {
        Self { calls, ..self }
    }

    /// Skills of one kind; the number left out stays.
    pub fn keeping(&self, is_kept: impl Fn(&Skill) -> bool) -> Self {
        let skills = self.skills.iter().filter(|skill| is_kept(skill)).cloned().collect();
        Self::new(skills, self.left_out.clone()).with_calls(self.calls.clone())
    }

    /// True if there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.skills.is_empty() && self.left_out.is_empty()
    }

    /// Digest of all files.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Position of the skill with this name, in any case.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.skills.iter().position(|skill| skill.name.eq_ignore_ascii_case(name))
    }
}

impl Skill {
    /// Makes a skill of the text of its `SKILL.md`.
    ///
    /// # Errors
    /// Fault of its front matter, in words.
    fn of_text(folder: &str, text: &str) -> Result<Self, String> {
        let front_matter = front_matter::read(text)?;
        let required = |key: &str| match front_matter.get(key) {
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(text.as_str()),
            Some(Value::String(_)) | None => Err(format!("its front matter has no `{key}`; add a line `{key}: …`")),
            Some(_) => Err(format!("`{key}` in its front matter is no text; put it in quotes")),
        };
        let name = required("name")?;
        check_name(name)?;
        if name != folder {
            return Err(format!(
                "its front matter names it `{name}`; name its folder `{name}`, or the skill `{folder}`"
            ));
        }
        let description = required("description")?;
        let length = description.chars().count();
        if length > MAX_DESCRIPTION {
            return Err(format!(
                "its description has {length} characters, over the limit of {MAX_DESCRIPTION}; shorten it"
            ));
        }
        let (name, description) = (name.to_owned(), stubgen::one_line(description));
        let servers = servers(&front_matter)?;
        let mut skill = Self { name, description, servers, front_matter, files: Vec::new(), findings: Vec::new() };
        skill.add(SKILL_MD.to_owned(), Content::Text(text.into()));
        Ok(skill)
    }

    /// Adds a file, and examines its text.
    fn add(&mut self, path: String, content: Content) {
        if let Content::Text(text) = &content {
            let item = Item::Skill(format!("{}/{path}", self.name));
            self.findings.extend(Findings::of_text(&item, text).list);
        }
        self.files.push(SkillFile { path, content });
    }

    /// Position of the file at a path below the skill, in any case.
    pub fn position(&self, path: &str) -> Option<usize> {
        let exact = self.files.iter().position(|file| file.path == path);
        exact.or_else(|| self.files.iter().position(|file| file.path.eq_ignore_ascii_case(path)))
    }
}

/// Most characters of a description, by the format.
const MAX_DESCRIPTION: usize = 1_024;
/// Most characters of a name, by the format.
const MAX_NAME: usize = 64;
/// Most servers that a skill names.
const MAX_SERVERS: usize = 64;

/// Checks a name by the rules of the format.
fn check_name(name: &str) -> Result<(), String> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let is_joined = name.starts_with('-') || name.ends_with('-') || name.contains("--");
    match name.len() <= MAX_NAME && is_plain && !is_joined && !name.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "its name is not valid: write 1 to {MAX_NAME} characters of a-z, 0-9 and single hyphens between them"
        )),
    }
}

const NO_NAMES: &str = "`servers` in its front matter is no list of names; write `servers: [github, jira]`";

/// Names of the servers that a skill needs: `servers` at the top or in `metadata`, a list or words with commas.
fn servers(front_matter: &Map<String, Value>) -> Result<Vec<String>, String> {
    let metadata = front_matter.get("metadata").and_then(|metadata| metadata.get("servers"));
    let names: Vec<&str> = match front_matter.get("servers").or(metadata) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(names)) => names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect(),
        Some(Value::Array(names)) => names.iter().map(Value::as_str).collect::<Option<_>>().ok_or(NO_NAMES)?,
        Some(_) => return Err(NO_NAMES.to_owned()),
    };
    if names.len() > MAX_SERVERS {
        return Err(format!("it names {} servers, over the limit of {MAX_SERVERS}", names.len()));
    }
    Ok(names.into_iter().map(stubgen::one_line).collect())
}
