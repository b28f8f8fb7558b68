//! Validation of arguments against a schema, with a description of each fault.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError, Validator};
use serde_json::Value;

use super::compiler::ArgumentValidator;
use super::cost::Cost;
use super::fault::{ArgumentFault, fault, shorten};
use super::relaxed::compile_relaxed;
use crate::json::is_long_number;

/// The most faults that are reported for one call.
const MAX_FAULTS: usize = 10;
/// The most alternatives of a value whose faults are reported.
const MAX_ALTERNATIVES: usize = 16;
/// The most subschema evaluations for which each fault is reported.
const MAX_EXPLAINED: u64 = 20_000;
/// The most options of an enumeration that a message lists.
const MAX_OPTIONS: usize = 20;

/// A compiled schema with its cost.
#[derive(Debug)]
pub(crate) struct CompiledSchema {
    validator: Validator,
    cost: Cost,
}

impl CompiledSchema {
    /// Compiles a schema that was checked when the catalog was read.
    pub(crate) fn new(schema: &Value) -> Result<Self, String> {
        let relaxed = compile_relaxed(schema).map_err(|fault| fault.message)?;
        Ok(Self {
            validator: relaxed.validator,
            cost: relaxed.cost,
        })
    }
}

impl ArgumentValidator for CompiledSchema {
    fn accepts(&self, arguments: &Value) -> bool {
        self.cost.count_evaluations(arguments).is_some() && self.validator.is_valid(arguments)
    }

    fn texts_for_structures(&self, arguments: &Value) -> Vec<String> {
        if self
            .cost
            .count_evaluations(arguments)
            .is_none_or(|evaluations| evaluations > MAX_EXPLAINED)
        {
            return Vec::new();
        }
        let mut pointers = Vec::new();
        for error in self.validator.iter_errors(arguments) {
            if wants_structure(&error) {
                pointers.push(error.instance_path().to_string());
            }
            if pointers.len() == MAX_FAULTS {
                break;
            }
        }
        pointers
    }

    fn faults(&self, arguments: &Value) -> Vec<ArgumentFault> {
        let single_fault = |keyword: &str, expected: &str| {
            vec![fault(
                String::new(),
                keyword,
                expected.to_owned(),
                arguments,
            )]
        };
        match self.cost.count_evaluations(arguments) {
            None => single_fault(
                "limit",
                "fewer or flatter arguments: validation takes too long",
            ),
            // Each failed alternative keeps a copy of the value that it was applied to.
            Some(evaluations) if evaluations > MAX_EXPLAINED && !self.accepts(arguments) => {
                single_fault(
                    "limit",
                    "a value that the schema accepts; the arguments are too large to report \
                     each fault",
                )
            }
            Some(_) => self
                .validator
                .iter_errors(arguments)
                .take(MAX_FAULTS)
                .map(|error| describe(&error))
                .collect(),
        }
    }
}

/// Returns `true` if the value is text and the schema allows an object or an array in its place.
fn wants_structure(error: &ValidationError<'_>) -> bool {
    let structures = [JsonType::Object, JsonType::Array];
    error.instance().is_string()
        && match error.kind() {
            ValidationErrorKind::Type {
                kind: TypeKind::Single(kind),
            } => structures.contains(kind),
            ValidationErrorKind::Type {
                kind: TypeKind::Multiple(kinds),
            } => kinds.iter().any(|kind| structures.contains(&kind)),
            ValidationErrorKind::AnyOf { context }
            | ValidationErrorKind::OneOfNotValid { context } => {
                context.iter().flatten().any(wants_structure)
            }
            _ => false,
        }
}

fn describe(error: &ValidationError<'_>) -> ArgumentFault {
    let mut expected = match error.kind() {
        ValidationErrorKind::Type {
            kind: TypeKind::Single(kind),
        } => with_article(kind.as_str()),
        ValidationErrorKind::Type {
            kind: TypeKind::Multiple(kinds),
        } => kinds
            .iter()
            .map(|kind| with_article(kind.as_str()))
            .collect::<Vec<_>>()
            .join(" or "),
        ValidationErrorKind::Required { property } => {
            format!("the member {property}, which is required")
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            format!(
                "no member {}",
                list(unexpected.iter().map(|name| format!("{name:?}")))
            )
        }
        ValidationErrorKind::Enum { options } => {
            let options = options.as_array().map_or(&[][..], Vec::as_slice);
            format!("one of {}", list(options.iter().map(ToString::to_string)))
        }
        ValidationErrorKind::Constant { expected_value } => expected_value.to_string(),
        ValidationErrorKind::Minimum { limit } => format!("at least {limit}"),
        ValidationErrorKind::Maximum { limit } => format!("at most {limit}"),
        ValidationErrorKind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        ValidationErrorKind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        ValidationErrorKind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        ValidationErrorKind::MinLength { limit } => format!("at least {limit} characters"),
        ValidationErrorKind::MaxLength { limit } => format!("at most {limit} characters"),
        ValidationErrorKind::MinItems { limit } => format!("at least {limit} items"),
        ValidationErrorKind::MaxItems { limit } => format!("at most {limit} items"),
        ValidationErrorKind::MinProperties { limit } => format!("at least {limit} members"),
        ValidationErrorKind::MaxProperties { limit } => format!("at most {limit} members"),
        ValidationErrorKind::UniqueItems => "items that all differ".to_owned(),
        ValidationErrorKind::Pattern { pattern } => format!("text that matches {pattern}"),
        ValidationErrorKind::FalseSchema => "nothing: no value is allowed".to_owned(),
        ValidationErrorKind::AnyOf { .. } | ValidationErrorKind::OneOfNotValid { .. } => {
            "a value of one of the allowed forms".to_owned()
        }
        ValidationErrorKind::OneOfMultipleValid { .. } => {
            "a value of only one of the allowed forms".to_owned()
        }
        _ => format!(
            "a value that {:?} allows ({})",
            error.kind().keyword(),
            error.masked_with("the value")
        ),
    };
    // A long number was read as text, so that it keeps its digits.
    if matches!(error.kind(), ValidationErrorKind::Type { .. })
        && error.instance().as_str().is_some_and(is_long_number)
    {
        expected.push_str(" that 64 bits keep, or fewer digits");
    }
    let mut described = fault(
        error.instance_path().to_string(),
        error.kind().keyword(),
        shorten(&expected),
        error.instance(),
    );
    if let ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } =
        error.kind()
    {
        let alternatives = context.iter().take(MAX_ALTERNATIVES);
        described.alternatives = alternatives
            .map(|errors| errors.iter().take(MAX_FAULTS).map(describe).collect())
            .collect();
    }
    described
}

fn with_article(kind: &str) -> String {
    match kind {
        "null" => "null".to_owned(),
        "integer" | "array" | "object" => format!("an {kind}"),
        _ => format!("a {kind}"),
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.take(MAX_OPTIONS + 1).collect();
    match items.len() {
        0..=MAX_OPTIONS => items.join(", "),
        _ => format!("{}, …", items[..MAX_OPTIONS].join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults(schema: &Value, arguments: &Value) -> Vec<String> {
        let check = crate::schema::ArgumentCheck::new(schema, &crate::schema::JsonSchema)
            .expect("the schema is valid");
        let faults: Vec<String> = check
            .faults(arguments)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(check.accepts(arguments), faults.is_empty(), "{arguments}");
        faults
    }

    #[test]
    fn faults_have_place_expected_and_received_value() {
        let schema = json!({
            "type": "object",
            "required": ["city"],
            "additionalProperties": false,
            "properties": {
                "city": {"type": "string", "minLength": 2},
                "unit": {"enum": ["celsius", "fahrenheit"]},
                "days": {"type": ["integer", "null"], "minimum": 1},
                "at": {
                    "type": "object",
                    "properties": {"a/b": {"type": "array", "items": {"type": "number"}}},
                },
            },
        });
        for (arguments, expected) in [
            (
                json!({}),
                "the arguments: expected the member \"city\", which is required, received {}",
            ),
            (
                json!({"city": "x"}),
                "/city: expected at least 2 characters, received \"x\"",
            ),
            (
                json!({"city": "Bern", "unit": "K"}),
                "/unit: expected one of \"celsius\", \"fahrenheit\", received \"K\"",
            ),
            (
                json!({"city": "Bern", "days": "3"}),
                "/days: expected null or an integer, received \"3\"",
            ),
            (
                json!({"city": "Bern", "days": 0}),
                "/days: expected at least 1, received 0",
            ),
            (
                json!({"city": "Bern", "zip": 1}),
                "the arguments: expected no member \"zip\", received {\"city\":\"Bern\",\"zip\":1}",
            ),
            (
                json!({"city": "Bern", "at": {"a/b": [1, "2"]}}),
                "/at/a~1b/1: expected a number, received \"2\"",
            ),
            (
                json!([1]),
                "the arguments: expected an object of arguments, received [1]",
            ),
        ] {
            assert_eq!(faults(&schema, &arguments), [expected]);
        }
        assert!(
            faults(
                &schema,
                &json!({"city": "Bern", "unit": "celsius", "days": null})
            )
            .is_empty()
        );
    }

    #[test]
    fn empty_schema_accepts_no_arguments() {
        assert!(faults(&json!({}), &json!({})).is_empty());
        assert!(faults(&json!({}), &json!({"x": 1}))[0].contains("takes none"));
        assert!(faults(&json!({"type": "object"}), &json!({"x": 1})).is_empty());
    }

    #[test]
    fn number_and_length_of_faults_are_bounded() {
        let many: Vec<Value> = (0..1000).map(|n| json!(n)).collect();
        let schema =
            json!({"properties": {"a": {"items": {"type": "string"}}, "b": {"enum": many}}});
        let faults_found = faults(
            &schema,
            &json!({"a": vec![0; 1000], "b": "x".repeat(100_000)}),
        );
        assert!(
            faults_found.len() <= MAX_FAULTS && faults_found.iter().all(|fault| fault.len() < 1000),
            "{faults_found:?}"
        );
    }

    #[test]
    fn schemas_of_older_drafts_are_applied() {
        let schema = json!({"$schema": "http://json-schema.org/draft-04/schema#",
            "properties": {"n": {"type": "number", "minimum": 0, "exclusiveMinimum": true}}});
        assert_eq!(faults(&schema, &json!({"n": 0})).len(), 1);
        let undeclared = json!({
            "properties": {"n": {"type": "number", "minimum": 0, "exclusiveMinimum": true}},
        });
        assert_eq!(
            faults(&undeclared, &json!({"n": 0})).len(),
            1,
            "draft 4 without $schema"
        );
        let tuple = json!({"$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"p": {"items": [{"type": "string"}], "additionalItems": false}}});
        assert_eq!(faults(&tuple, &json!({"p": ["a", "b"]})).len(), 1);
    }

    #[test]
    fn validation_with_recursive_schemas_ends() {
        let node = json!({
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
        });
        let tree = json!({
            "properties": {"tree": {"$ref": "#/$defs/node"}},
            "$defs": {"node": node},
        });
        assert!(
            faults(
                &tree,
                &json!({"tree": {"name": "a", "children": [{"name": "b"}]}})
            )
            .is_empty()
        );
        let faults_found = faults(
            &tree,
            &json!({"tree": {"name": "a", "children": [{"children": []}]}}),
        );
        assert!(
            faults_found[0].starts_with("/tree/children/0: expected the member \"name\""),
            "{faults_found:?}"
        );
        let alternative = json!({"properties": {"a": {"$ref": "#"}}, "required": ["zz"]});
        let recursive = json!({"anyOf": [alternative.clone(), alternative]});
        let deep = (0..60).fold(json!({}), |inner, _| json!({"a": inner}));
        assert!(
            faults(&recursive, &deep)[0].contains("takes too long"),
            "two alternatives at each of sixty levels"
        );
        assert!(faults(&recursive, &json!({"a": {}}))[0].contains("one of the allowed forms"));
    }
}
