//! Skills in the virtual filesystem: `/skills/NAME/SKILL.md` and the files beside it, and their URIs.

use std::borrow::Cow;
use std::sync::Arc;

use super::listing::Lines;
use super::{Catalog, Node};
use crate::findings;
use crate::skills::{Content, SKILL_MD, Skill, SkillFile, Skills};
use base::text::counted;

/// Folder of the skills.
pub(super) const FOLDER: &str = "skills";
/// Beginning of the URI of a skill's file, by MCP's skills extension.
const SCHEME: &str = "skill://";
/// Most servers that a listing names as missing.
const NAMED: usize = 5;

impl Catalog {
    /// The skills, those of scripts included.
    pub fn skills(&self) -> &Arc<Skills> {
        &self.skills
    }

    /// Every file of every skill.
    pub fn every_skill_file(&self) -> impl Iterator<Item = Node> {
        let of = |(skill, files): (usize, usize)| (0..files).map(move |file| Node::SkillFile(skill, file));
        self.skills.skills.iter().map(|skill| skill.files.len()).enumerate().flat_map(of)
    }

    /// The node of a skill's file by its URI.
    pub fn skill_file_by_uri(&self, uri: &str) -> Option<Node> {
        let (name, path) = uri.strip_prefix(SCHEME)?.split_once('/')?;
        let skill = self.skills.skills.iter().position(|skill| skill.name == name)?;
        let file = self.skills.skills.get(skill)?.files.iter().position(|file| file.path == path)?;
        Some(Node::SkillFile(skill, file))
    }

    /// Skill and file of a node; for the folder of a skill its `SKILL.md`.
    pub fn skill_file(&self, node: Node) -> Option<(&Skill, &SkillFile)> {
        let (skill, file) = match node {
            Node::SkillFile(skill, file) => (skill, file),
            Node::Skill(skill) => (skill, 0),
            _ => return None,
        };
        let skill = self.skills.skills.get(skill)?;
        Some((skill, skill.files.get(file)?))
    }

    /// Servers of a skill that are not there or do not answer.
    pub fn skill_lacks(&self, skill: &Skill) -> Option<String> {
        let (mut missing, mut silent) = (Vec::new(), Vec::new());
        for name in &skill.servers {
            match self.server(name) {
                Err(_) => missing.push(name.as_str()),
                Ok(entry) if entry.comes_last() => silent.push(name.as_str()),
                Ok(_) => {}
            }
        }
        let listed = |what: &str, names: &[&str]| {
            let more = names.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            (!names.is_empty()).then(|| format!("{what}: {}{more}", names[..names.len().min(NAMED)].join(", ")))
        };
        let lacks = [listed("missing servers", &missing), listed("servers that do not answer", &silent)];
        let lacks: Vec<String> = lacks.into_iter().flatten().collect();
        (!lacks.is_empty()).then(|| lacks.join("; "))
    }

    /// Path of a node of the skills.
    pub(super) fn skill_path(&self, node: Node) -> String {
        let skill = |skill: usize| self.skills.skills.get(skill).map_or("", |skill| &skill.name);
        match node {
            Node::Skill(at) => format!("/{FOLDER}/{}/", skill(at)),
            Node::SkillFile(at, _) => {
                let path = self.skill_file(node).map_or("", |(_, file)| &file.path);
                format!("/{FOLDER}/{}/{path}", skill(at))
            }
            _ => format!("/{FOLDER}/"),
        }
    }

    /// Text of a skill's file.
    pub(super) fn skill_text(&self, node: Node) -> Option<Cow<'_, str>> {
        let (skill, file) = self.skill_file(node)?;
        Some(match &file.content {
            Content::Text(text) => Cow::Borrowed(text),
            Content::Binary(bytes) => {
                let uri = skill_uri(skill, file);
                Cow::Owned(format!("{} bytes that are no text; clients read them as the resource {uri}", bytes.len()))
            }
        })
    }

    pub(super) fn ls_skills(&self, node: Node, lines: &mut Lines) {
        match node {
            Node::Skill(at) => {
                let Some(skill) = self.skills.skills.get(at) else { return };
                lines.push(&format!("{}  {}", self.path(node), self.skill_note(skill)));
                lines.extend(skill.files.iter().map(|file| match &file.content {
                    Content::Text(_) => file.path.clone(),
                    Content::Binary(bytes) => format!("{}  {} bytes, no text", file.path, bytes.len()),
                }));
            }
            Node::SkillFile(..) => lines.push(&self.path(node)),
            _ => {
                lines.push(&self.skills_line(&format!("/{FOLDER}/")));
                lines.extend(
                    self.skills.skills.iter().map(|skill| format!("{}/  {}", skill.name, self.skill_note(skill))),
                );
                lines.extend(self.skills.left_out.iter().map(|(path, reason)| format!("left out: {path}: {reason}")));
            }
        }
    }

    /// The line of the folder of skills, named as given.
    pub(super) fn skills_line(&self, named: &str) -> String {
        let (all, left_out) = (self.skills.skills.len(), self.skills.left_out.len());
        let left_out = if left_out > 0 { format!(", {left_out} left out") } else { String::new() };
        format!("{named}  {}{left_out}; {SKILL_MD} in each says how", counted(all, "skill"))
    }

    /// Description of a skill, the servers that it lacks, and the rules of its findings.
    pub(super) fn skill_note(&self, skill: &Skill) -> String {
        let needs = match skill.servers.is_empty() {
            true => String::new(),
            false => format!("  needs {}", skill.servers.join(", ")),
        };
        let lacks = self.skill_lacks(skill).map(|lacks| format!("  ({lacks})")).unwrap_or_default();
        let found = findings::summary(&skill.findings).map(|found| format!("  ({found})")).unwrap_or_default();
        format!("{}{needs}{lacks}{found}", skill.description)
    }
}

/// URI of a skill's file.
pub fn skill_uri(skill: &Skill, file: &SkillFile) -> String {
    format!("{SCHEME}{}/{}", skill.name, file.path)
}
