//! Resolves references, inside the document only.

use std::collections::HashMap;

use jsonschema::Draft;
use serde_json::{Map, Value};
use stubgen::subschemas;
use url::Url;

use super::form::number;
use super::{Check, Halt, MAX_LEVELS, address};
use base::meter::Meter;
use base::text::head;

fn id(map: &Map<String, Value>, draft: Draft) -> Option<&str> {
    if draft <= Draft::Draft7 && map.contains_key("$ref") {
        return None;
    }
    map.get(draft.id_keyword())?.as_str()
}

/// True if references inside start from this schema.
pub(super) fn is_resource(map: &Map<String, Value>, draft: Draft) -> bool {
    id(map, draft).is_some_and(|id| !id.starts_with('#'))
}

/// Names of a schema's parts.
#[derive(Default)]
pub(super) struct Index<'c> {
    /// Resources by URI; none is ever fetched.
    resources: HashMap<String, &'c Value>,
    /// URI of each resource.
    uris: HashMap<usize, Url>,
    /// Anchors by resource.
    anchors: HashMap<usize, HashMap<&'c str, &'c Value>>,
}

impl<'c> Index<'c> {
    fn new(root: &'c Value, draft: Draft, meter: &Meter) -> Result<Self, Halt> {
        let mut index = Self::default();
        let start = Url::parse("json-schema:///").map_err(|error| Halt::Unreadable(error.to_string()))?;
        let mut todo = vec![(root, root, start)];
        while let Some((schema, mut base, mut uri)) = todo.pop() {
            meter.spend(2 + uri.as_str().len() as u64 / 16)?;
            let Some(map) = schema.as_object() else { continue };
            if std::ptr::eq(schema, root) || is_resource(map, draft) {
                if let Some(id) = id(map, draft) {
                    uri = uri.join(id).map_err(|error| Halt::Unreadable(format!("{}: {error}", head(id, 80))))?;
                }
                base = schema;
                let plain = uri.as_str().split('#').next().unwrap_or_default();
                index.resources.entry(plain.to_owned()).or_insert(schema);
                index.uris.insert(address(schema), uri.clone());
            }
            let mut anchor = |name: &'c str| {
                index.anchors.entry(address(base)).or_default().entry(name).or_insert(schema);
            };
            if let Some(name) = id(map, draft).and_then(|id| id.strip_prefix('#')) {
                anchor(name);
            }
            for keyword in ["$anchor", "$dynamicAnchor"] {
                map.get(keyword).and_then(Value::as_str).into_iter().for_each(&mut anchor);
            }
            subschemas(map, number(draft), |part| todo.push((part, base, uri.clone())));
        }
        Ok(index)
    }
}

impl<'c> Check<'c> {
    /// Target of a reference, and the resource that contains it.
    pub(super) fn target(&mut self, reference: &'c Value) -> Result<(&'c Value, &'c Value), Halt> {
        if let Some(known) = self.resolved.get(&address(reference)) {
            return Ok(*known);
        }
        let text = reference.as_str().unwrap_or_default();
        self.spend(1 + text.len())?;
        let nowhere = || Halt::Unreadable(format!("the reference {} leads nowhere in it", head(text, 120)));
        let (address_part, fragment) = text.split_once('#').unwrap_or((text, ""));
        let fragment = percent_encoding::percent_decode_str(fragment).decode_utf8().map_err(|_| nowhere())?;
        let base = if address_part.is_empty() {
            self.base
        } else {
            let base = address(self.base);
            let index = self.index()?;
            let start = index.uris.get(&base).ok_or_else(nowhere)?;
            let uri = start.join(address_part).map_err(|_| nowhere())?;
            *index.resources.get(uri.as_str()).ok_or_else(nowhere)?
        };
        let found = if fragment.is_empty() {
            Some((base, base))
        } else if fragment.starts_with('/') {
            self.pointed(base, &fragment)?
        } else {
            let named = self.index()?.anchors.get(&address(base));
            named.and_then(|named| named.get(&*fragment)).map(|at| (*at, base))
        };
        let found = found.ok_or_else(nowhere)?;
        self.resolved.insert(address(reference), found);
        Ok(found)
    }

    /// The part at a JSON pointer, and the innermost resource on the way.
    fn pointed(&self, base: &'c Value, pointer: &str) -> Result<Option<(&'c Value, &'c Value)>, Halt> {
        let (mut at, mut resource) = (base, base);
        for step in pointer.split('/').skip(1) {
            self.spend(1)?;
            let step = step.replace("~1", "/").replace("~0", "~");
            let next = match at {
                Value::Object(map) => map.get(&step),
                Value::Array(items) => step.parse().ok().and_then(|position: usize| items.get(position)),
                _ => None,
            };
            let Some(next) = next else { return Ok(None) };
            at = next;
            if self.has_ids && at.as_object().is_some_and(|map| is_resource(map, self.draft)) {
                resource = at;
            }
        }
        Ok(Some((at, resource)))
    }

    /// A dynamic reference resolves to the anchor of that name in the outermost resource that has one.
    pub(super) fn dynamic_target(&mut self, reference: &'c Value) -> Result<(&'c Value, &'c Value), Halt> {
        let (target, base) = self.target(reference)?;
        let name = reference.as_str().and_then(|text| text.split_once('#')).map_or("", |(_, name)| name);
        let is_dynamic = |at: &Value| at.get("$dynamicAnchor").and_then(Value::as_str) == Some(name);
        if name.is_empty() || !is_dynamic(target) || !self.has_ids {
            return Ok((target, base));
        }
        self.spend(self.scope.len())?;
        let scope = self.scope.clone();
        let index = self.index()?;
        let named = |resource: &Value| index.anchors.get(&address(resource))?.get(name).filter(|at| is_dynamic(at));
        let outermost = scope.into_iter().find_map(|resource| Some((*named(resource)?, resource)));
        Ok(outermost.unwrap_or((target, base)))
    }

    /// `$recursiveRef: "#"` resolves to the outermost resource, if all between have `$recursiveAnchor`.
    pub(super) fn recursive_target(&mut self, reference: &'c Value) -> Result<(&'c Value, &'c Value), Halt> {
        let (target, base) = self.target(reference)?;
        let is_recursive = |schema: &Value| schema.get("$recursiveAnchor") == Some(&Value::Bool(true));
        if !is_recursive(target) {
            return Ok((target, base));
        }
        self.spend(self.scope.len())?;
        let outermost = self.scope.iter().rev().take_while(|resource| is_recursive(resource)).last();
        Ok(outermost.map_or((target, base), |resource| (*resource, *resource)))
    }

    fn index(&mut self) -> Result<&Index<'c>, Halt> {
        if self.index.is_none() {
            self.index = Some(Index::new(self.root, self.draft, self.meter)?);
        }
        self.index.as_ref().ok_or(Halt::TooDeep)
    }

    /// Enters a resource.
    pub(super) fn entering<T>(
        &mut self,
        resource: &'c Value,
        work: impl FnOnce(&mut Self) -> Result<T, Halt>,
    ) -> Result<T, Halt> {
        if std::ptr::eq(self.base, resource) {
            return work(self);
        }
        if self.scope.len() > MAX_LEVELS {
            return Err(Halt::TooDeep);
        }
        let outer = std::mem::replace(&mut self.base, resource);
        self.scope.push(resource);
        let done = work(self);
        self.scope.pop();
        self.base = outer;
        done
    }
}
