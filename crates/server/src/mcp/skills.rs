//! Skills by MCP's skills extension, `io.modelcontextprotocol/skills` (SEP-2640): `skills/list`, `skills/get`, and the
//! files as resources with the URI `skill://NAME/PATH`.
//!
//! Files are redacted as everything that clients get. Digests and sizes are those of the text that is served, so that a
//! client's verification holds.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use rmcp::model::{
    GetSkillResult, ListSkillsResult, PaginatedRequestParams, ReadResourceResult, Resource, ResourceContents, Skill,
    SkillFrontmatter, SkillResource, SkillResources,
};
use serde_json::Value;

use super::SessionHandler;
use super::resources::{media_type, paged};
use base::error::{Error, ErrorCode, Result};
use base::limits;
use base::task;
use base::text::brief;
use catalog::skills::{self, Content, SKILL_MD, SkillFile};
use catalog::{Catalog, Node, skill_uri};
use redact::Surface;
use upstream::Caller;

impl SessionHandler {
    pub(super) async fn skills(&self, page: Option<PaginatedRequestParams>) -> Result<ListSkillsResult> {
        let catalog = self.ready_catalog().await;
        let (skills, next) = paged(catalog.skills().skills.iter(), page, catalog.digest(), |_| 0)?;
        let surface = self.surface();
        let entries =
            task::work_on(limits::SKILLS_SIZE.max, || skills.into_iter().map(|skill| entry(skill, surface)).collect());
        Ok(ListSkillsResult { next_cursor: next, ..ListSkillsResult::with_all_items(entries) })
    }

    pub(super) async fn skill(&self, uri: &str) -> Result<GetSkillResult> {
        limits::URI.check(uri.len())?;
        let catalog = self.ready_catalog().await;
        let surface = self.surface();
        match catalog.skill_file_by_uri(uri).and_then(|node| catalog.skill_file(node)) {
            Some((skill, file)) if file.path == SKILL_MD => {
                Ok(GetSkillResult::new(task::work_on(limits::SKILLS_SIZE.max, || entry(skill, surface))))
            }
            _ => Err(Error::new(ErrorCode::InvalidArgs, format!("there is no skill {}", brief(uri)))
                .hint("`skills/list` lists the skills; name the URI of a SKILL.md")),
        }
    }

    /// The file of a skill that `uri` names; `None` if it names none.
    pub(super) async fn skill_resource(
        &self,
        catalog: &Arc<Catalog>,
        uri: &str,
        caller: Arc<dyn Caller>,
    ) -> Result<Option<ReadResourceResult>> {
        let Some((_, file)) = catalog.skill_file_by_uri(uri).and_then(|node| catalog.skill_file(node)) else {
            return Ok(None);
        };
        let context = self.execution_context(caller);
        // For the audit log alone: placeholders would not fit the digests.
        context.request("resources/read", async |_| Ok(String::new())).await?;
        let contents = match &file.content {
            Content::Text(text) => ResourceContents::text(redact::text(self.surface(), text), uri),
            Content::Binary(bytes) => {
                ResourceContents::blob(base64::engine::general_purpose::STANDARD.encode(bytes), uri)
            }
        };
        Ok(Some(ReadResourceResult::new(vec![contents.with_mime_type(kind(file))])))
    }
}

/// The file of a skill in the list of resources.
pub(super) fn listed(catalog: &Catalog, node: Node, surface: Surface) -> Option<Resource> {
    let (skill, file) = catalog.skill_file(node)?;
    let name = if file.path == SKILL_MD { skill.name.clone() } else { format!("{}/{}", skill.name, file.path) };
    let mut resource = Resource::new(skill_uri(skill, file), name);
    resource.mime_type = Some(kind(file).to_owned());
    resource.size = Some(served(file, surface).len() as u64);
    if file.path == SKILL_MD {
        resource.description = Some(redact::text(surface, &skill.description).into_owned());
    }
    Some(resource)
}

fn kind(file: &SkillFile) -> &'static str {
    match &file.content {
        Content::Text(_) => media_type(&file.path),
        Content::Binary(_) => "application/octet-stream",
    }
}

/// Bytes that a client gets of a file.
fn served(file: &SkillFile, surface: Surface) -> Cow<'_, [u8]> {
    match &file.content {
        Content::Text(text) => match redact::text(surface, text) {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        },
        Content::Binary(bytes) => Cow::Borrowed(bytes),
    }
}

fn entry(skill: &skills::Skill, surface: Surface) -> Skill {
    let files =
        skill.files.iter().map(|file| SkillResource::from_bytes(skill_uri(skill, file), &served(file, surface)));
    let files = SkillResources::Files(files.collect());
    let fields = redact::json(surface, Value::Object(skill.front_matter.clone()));
    let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut front_matter = SkillFrontmatter::new(text("name"), text("description"));
    if let Value::Object(fields) = &fields {
        let others = fields.iter().filter(|(key, _)| !matches!(key.as_str(), "name" | "description"));
        front_matter.extra = others.map(|(key, value)| (key.clone(), value.clone())).collect();
    }
    let uri = skill.files.first().map(|file| skill_uri(skill, file)).unwrap_or_default();
    Skill::new(uri, front_matter, files)
}
