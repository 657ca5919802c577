//! The folder of skills: a folder with a `SKILL.md` each. No link below it is followed, and everything is bounded.

use std::path::Path;

use super::{Content, SKILL_MD, Skill, Skills};
use base::limits;
use base::text::brief;
use base::tree::{Kind, Tree};

/// Most skills and files left out that are named.
const MAX_NOTES: usize = 100;

/// Reads the skills of a folder. What cannot be read is left out, and noted.
pub fn read(path: &Path) -> Skills {
    let mut reading = Reading { skills: Vec::new(), left_out: Vec::new(), bytes: 0, unnamed: 0 };
    match Tree::open(path) {
        Ok(tree) => reading.folder(&tree),
        Err(error) => reading.leave("/", format!("the folder of skills {} cannot be read: {error}", path.display())),
    }
    if reading.unnamed > 0 {
        reading.left_out.push(("…".to_owned(), format!("{} more were left out", reading.unnamed)));
    }
    Skills::new(reading.skills, reading.left_out)
}

struct Reading {
    skills: Vec<Skill>,
    left_out: Vec<(String, String)>,
    /// Bytes of all files so far.
    bytes: usize,
    /// Number of notes that were not kept.
    unnamed: usize,
}

impl Reading {
    fn leave(&mut self, path: &str, reason: impl Into<String>) {
        if self.left_out.len() >= MAX_NOTES {
            self.unnamed += 1;
            return;
        }
        self.left_out.push((stubgen::one_line(&brief(path)), stubgen::one_line(&reason.into())));
    }

    fn folder(&mut self, tree: &Tree) {
        let names = match tree.names(limits::SKILLS.max * 2) {
            Ok(names) => names,
            Err(error) => return self.leave("/", format!("the folder of skills cannot be listed: {error}")),
        };
        for (name, kind) in names {
            match kind {
                Some(Kind::Other(what)) => self.leave(&name, format!("it is {what}, no folder")),
                // A README beside the skills is none.
                Some(Kind::File) => {}
                None if self.skills.len() >= limits::SKILLS.max => {
                    self.leave(&name, format!("there are more than {} skills", limits::SKILLS.max));
                }
                None => match self.skill(tree, &name) {
                    Ok(skill) => self.skills.push(skill),
                    Err(reason) => self.leave(&name, reason),
                },
            }
        }
    }

    /// Reads one skill, all files or none but those that are noted.
    fn skill(&mut self, tree: &Tree, name: &str) -> Result<Skill, String> {
        let most = limits::SKILL_FILES.max;
        let entries = tree.below(name, most).map_err(|error| error.to_string())?;
        if !entries.contains_key(SKILL_MD) {
            return Err(format!("it has no {SKILL_MD}"));
        }
        let text = match Content::of(file(tree, &format!("{name}/{SKILL_MD}"))?) {
            Content::Text(text) => text,
            Content::Binary(_) => return Err(format!("{SKILL_MD} is no UTF-8 text")),
        };
        let mut skill = Skill::of_text(name, &text)?;
        let (mut bytes, mut notes) = (text.len(), Vec::new());
        for (path, kind) in entries.into_iter().filter(|(path, _)| path != SKILL_MD) {
            let read = match kind {
                Kind::Other(what) => Err(format!("it is {what}, no file")),
                Kind::File if !is_plain(&path) => {
                    Err("its name needs other characters than letters, digits and `-_.+@,=~`; rename it".to_owned())
                }
                Kind::File => file(tree, &format!("{name}/{path}")),
            };
            match read {
                Ok(content) => {
                    bytes += content.len();
                    skill.add(path, Content::of(content));
                }
                Err(reason) => notes.push((format!("{name}/{path}"), reason)),
            }
        }
        let (max, total) = (limits::SKILLS_SIZE.max, self.bytes + bytes);
        if total > max {
            return Err(format!("with it all skills have {total} bytes, over the limit of {max} bytes"));
        }
        self.bytes = total;
        notes.into_iter().for_each(|(path, reason)| self.leave(&path, reason));
        Ok(skill)
    }
}

fn file(tree: &Tree, path: &str) -> Result<Vec<u8>, String> {
    tree.read(path, limits::SKILL_FILE.max as u64).map_err(|error| match path.ends_with(SKILL_MD) {
        true => format!("{SKILL_MD}: {error}"),
        false => error.to_string(),
    })
}

/// True if a path is the same in a URI.
fn is_plain(path: &str) -> bool {
    path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.+@,=~".contains(&byte))
}
