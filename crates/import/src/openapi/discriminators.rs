//! Schemas with a discriminator: a value of `Pet` may have the properties of `Cat` or `Dog`, which
//! extend it with `allOf`.

use std::collections::{HashMap, HashSet};

use picktools::schema::{decode_fragment, pointer_part};
use serde_json::{Map, Value, json};

use super::arguments::has_only_properties;
use super::references::{array_member, object_member, reference, text_member};

/// The objects of a document that hold named schemas.
const HOLDERS: [&str; 2] = ["/components/schemas", "/definitions"];
/// The most properties that variants may add to a parent.
const MAX_ADDED: usize = 60;
/// The most values that the description of a property names.
const MAX_NAMED: usize = 8;
/// The deepest nesting of `allOf` in a variant.
const MAX_DEPTH: usize = 16;

/// Adds the properties of its variants to each schema with a discriminator, if they can be listed.
/// The variants then extend a copy of the schema without them.
pub(super) fn flatten(document: &mut Value) {
    for holder in HOLDERS {
        if let Some(Value::Object(schemas)) = document.pointer_mut(holder) {
            flatten_schemas(schemas, &format!("#{holder}/"));
        }
    }
}

fn flatten_schemas(schemas: &mut Map<String, Value>, prefix: &str) {
    if !schemas
        .values()
        .any(|schema| discriminator(schema).is_some())
    {
        return;
    }
    let family = Family::new(schemas, prefix);
    let mut parents = Vec::new();
    for (name, schema) in &*schemas {
        let variants = family.variants(name);
        if !variants.is_empty() {
            let base = unused_name(schemas, name);
            parents.push((name.clone(), base, family.flat_parent(schema, &variants)));
        }
    }
    let reference_to = |name: &str| format!("{prefix}{}", pointer_part(name));
    let mut bases = HashMap::new();
    for (name, base, _) in &parents {
        bases.insert(reference_to(name), reference_to(base));
    }
    for schema in schemas.values_mut().filter(|schema| is_child(schema)) {
        for part in schema["allOf"].as_array_mut().into_iter().flatten() {
            if let Some(base) = reference(part).and_then(|reference| bases.get(reference)) {
                *part = json!({"$ref": base});
            }
        }
    }
    for (name, base, flat) in parents {
        let mut parent = schemas[&name].take();
        schemas[&name] = flat.unwrap_or_else(|| open(&parent));
        if let Some(members) = parent.as_object_mut() {
            remove_variants(members);
        }
        schemas.insert(base, parent);
    }
}

/// Returns the name of the property that names the variant.
fn discriminator(schema: &Value) -> Option<&str> {
    match schema.get("discriminator")? {
        // Version 2.0.
        Value::String(name) => Some(name),
        Value::Object(members) => text_member(members, "propertyName"),
        _ => None,
    }
}

/// Returns `true` if a schema extends another one. `allOf` of one reference is a reference with a
/// description.
fn is_child(schema: &Value) -> bool {
    let Some(members) = schema.as_object() else {
        return false;
    };
    array_member(members, "allOf").len() > 1 || members.contains_key("properties")
}

fn unused_name(schemas: &Map<String, Value>, name: &str) -> String {
    let mut unused = format!("{name}_base");
    while schemas.contains_key(&unused) {
        unused.push('_');
    }
    unused
}

/// Removes what a schema says of its variants.
fn remove_variants(members: &mut Map<String, Value>) {
    for keyword in ["discriminator", "oneOf", "anyOf"] {
        members.shift_remove(keyword);
    }
    if members.get("additionalProperties") == Some(&Value::Bool(false)) {
        members.shift_remove("additionalProperties");
    }
}

/// Returns a parent that takes any property, as its variants cannot be listed. The discriminator
/// stays, so that the schema is not split into arguments.
fn open(parent: &Value) -> Value {
    let mut parent = parent.clone();
    if let Some(members) = parent.as_object_mut() {
        let discriminator = members.get("discriminator").cloned();
        remove_variants(members);
        members.extend(discriminator.map(|value| ("discriminator".to_owned(), value)));
    }
    parent
}

/// A schema that extends a parent.
struct Variant<'s> {
    name: &'s str,
    /// The values of the discriminator in the parent's mapping.
    mapped: Vec<&'s str>,
}

/// The properties of a schema with `allOf`.
#[derive(Default)]
struct Fields<'s> {
    properties: Map<String, Value>,
    required: HashSet<&'s str>,
}

/// The named schemas of a document, with those that extend each.
struct Family<'s> {
    schemas: &'s Map<String, Value>,
    prefix: &'s str,
    children: HashMap<&'s str, Vec<&'s str>>,
}

impl<'s> Family<'s> {
    fn new(schemas: &'s Map<String, Value>, prefix: &'s str) -> Self {
        let mut family = Self {
            schemas,
            prefix,
            children: HashMap::new(),
        };
        for (name, schema) in schemas.iter().filter(|(_, schema)| is_child(schema)) {
            let parts = schema.get("allOf").and_then(Value::as_array);
            for parent in parts.into_iter().flatten().filter_map(reference) {
                if let Some(parent) = family.name(parent) {
                    family.children.entry(parent).or_default().push(name);
                }
            }
        }
        family
    }

    /// Returns the name of the schema that a reference means.
    fn name(&self, reference: &str) -> Option<&'s str> {
        let name = decode_fragment(reference.strip_prefix(self.prefix)?);
        let name = name.replace("~1", "/").replace("~0", "~");
        Some(self.schemas.get_key_value(&name)?.0)
    }

    /// Lists the schemas that extend a schema with a discriminator: those of its mapping first.
    fn variants(&self, parent: &str) -> Vec<Variant<'s>> {
        let mut variants: Vec<Variant<'s>> = Vec::new();
        let schema = &self.schemas[parent];
        if discriminator(schema).is_none() {
            return variants;
        }
        let mapping = schema["discriminator"].as_object();
        for (value, target) in mapping
            .into_iter()
            .flat_map(|members| object_member(members, "mapping"))
        {
            let target = target.as_str().unwrap_or_default();
            let own_name = || Some(self.schemas.get_key_value(target)?.0.as_str());
            let Some(name) = self.name(target).or_else(own_name) else {
                continue;
            };
            match variants.iter_mut().find(|variant| variant.name == name) {
                Some(variant) => variant.mapped.push(value),
                None => variants.push(Variant {
                    name,
                    mapped: vec![value],
                }),
            }
        }
        let mut seen = HashSet::from([parent]);
        let mut open = vec![parent];
        while let Some(name) = open.pop() {
            for child in self.children.get(name).into_iter().flatten() {
                if !seen.insert(child) {
                    continue;
                }
                open.push(child);
                if variants.iter().all(|variant| variant.name != *child) {
                    variants.push(Variant {
                        name: child,
                        mapped: Vec::new(),
                    });
                }
            }
        }
        variants
    }

    /// Collects the properties of a schema; `None` if it has other constraints too.
    fn fields(&self, schema: &'s Value) -> Option<Fields<'s>> {
        let mut fields = Fields::default();
        self.collect(schema, &mut fields, &mut HashSet::new(), 0)?;
        Some(fields)
    }

    fn collect(
        &self,
        schema: &'s Value,
        fields: &mut Fields<'s>,
        seen: &mut HashSet<&'s str>,
        depth: usize,
    ) -> Option<()> {
        if let Some(reference) = reference(schema) {
            let name = self.name(reference)?;
            return match seen.insert(name) {
                true => self.collect(&self.schemas[name], fields, seen, depth),
                false => Some(()),
            };
        }
        let members = schema.as_object()?;
        // What a parent says of its variants is no constraint of a variant.
        let is_parent = discriminator(schema).is_some();
        let is_known = |key: &str| is_parent && matches!(key, "discriminator" | "oneOf" | "anyOf");
        if depth > MAX_DEPTH || !has_only_properties(members, is_known) {
            return None;
        }
        for part in array_member(members, "allOf") {
            self.collect(part, fields, seen, depth + 1)?;
        }
        for (name, property) in object_member(members, "properties") {
            fields.properties.insert(name.clone(), property.clone());
        }
        fields.required.extend(
            array_member(members, "required")
                .iter()
                .filter_map(Value::as_str),
        );
        Some(())
    }

    /// Returns the parent with the properties of its variants; `None` if they cannot be listed.
    fn flat_parent(&self, parent: &'s Value, variants: &[Variant<'s>]) -> Option<Value> {
        let property = discriminator(parent)?;
        let own = self.fields(parent)?;
        let mut values: Vec<&str> = Vec::new();
        let mut added: Map<String, Value> = Map::new();
        let mut uses: HashMap<String, Vec<(&str, bool)>> = HashMap::new();
        let variant_fields: Vec<_> = variants
            .iter()
            .map(|variant| self.fields(&self.schemas[variant.name]))
            .collect::<Option<_>>()?;
        for (variant, fields) in variants.iter().zip(&variant_fields) {
            let variant_values = match own_values(fields.properties.get(property)) {
                found
                    if !found.is_empty()
                        && fields.properties.get(property) != own.properties.get(property) =>
                {
                    found
                }
                _ if variant.mapped.is_empty() => vec![variant.name],
                _ => variant.mapped.clone(),
            };
            for (name, schema) in &fields.properties {
                if name == property || own.properties.contains_key(name) {
                    continue;
                }
                let is_required = fields.required.contains(name.as_str());
                let uses = uses.entry(name.clone()).or_default();
                uses.extend(variant_values.iter().map(|value| (*value, is_required)));
                add_alternative(&mut added, name, schema);
            }
            values.extend(variant_values);
        }
        if added.len() > MAX_ADDED {
            return None;
        }
        let mut properties = own.properties;
        limit_values(&mut properties, property, &values);
        for (name, mut schema) in added {
            describe_use(&mut schema, property, &uses[&name]);
            properties.insert(name, schema);
        }
        let mut flat = parent.as_object()?.clone();
        remove_variants(&mut flat);
        flat.shift_remove("allOf");
        let required: Vec<&str> = properties
            .keys()
            .map(String::as_str)
            .filter(|name| own.required.contains(name))
            .collect();
        flat.insert("required".to_owned(), required.into());
        flat.insert("type".to_owned(), "object".into());
        flat.insert("properties".to_owned(), properties.into());
        Some(flat.into())
    }
}

/// Returns the values that a schema lists.
fn own_values(schema: Option<&Value>) -> Vec<&str> {
    let Some(Value::Object(members)) = schema else {
        return Vec::new();
    };
    match text_member(members, "const") {
        Some(value) => vec![value],
        None => array_member(members, "enum")
            .iter()
            .filter_map(Value::as_str)
            .collect(),
    }
}

/// Adds the schema of a variant's property. One that variants define differently takes either.
fn add_alternative(added: &mut Map<String, Value>, name: &str, schema: &Value) {
    let Some(existing) = added.get_mut(name) else {
        added.insert(name.to_owned(), schema.clone());
        return;
    };
    if existing == schema {
        return;
    }
    match existing.get_mut("anyOf").and_then(Value::as_array_mut) {
        Some(alternatives) if !alternatives.contains(schema) => alternatives.push(schema.clone()),
        Some(_) => {}
        None => *existing = json!({"anyOf": [existing.take(), schema]}),
    }
}

/// Lists the values of the discriminator, if the parent does not.
fn limit_values(properties: &mut Map<String, Value>, property: &str, values: &[&str]) {
    let schema = properties
        .entry(property)
        .or_insert_with(|| json!({"type": "string"}));
    let is_open = reference(schema).is_none() && own_values(Some(schema)).is_empty();
    if let (true, Some(members)) = (is_open, schema.as_object_mut()) {
        let mut unique: Vec<&str> = Vec::new();
        for value in values {
            if !unique.contains(value) {
                unique.push(value);
            }
        }
        members.insert("enum".to_owned(), unique.into());
    }
}

/// Says in the description of a property which variants have it.
fn describe_use(schema: &mut Value, property: &str, uses: &[(&str, bool)]) {
    if reference(schema).is_some() || uses.len() > MAX_NAMED {
        return;
    }
    let Some(members) = schema.as_object_mut() else {
        return;
    };
    let names: Vec<String> = uses.iter().map(|(value, _)| format!("{value:?}")).collect();
    let needed = match uses.iter().all(|(_, is_required)| *is_required) {
        true => ", which needs it",
        false => "",
    };
    let mut description = format!("For {property} {}{needed}.", names.join(", "));
    if let Some(text) = text_member(members, "description") {
        description = format!("{description} {text}");
    }
    members.insert("description".to_owned(), description.into());
}
