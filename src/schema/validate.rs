//! Holding arguments to a schema, and saying what does not fit.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError, Validator};
use serde_json::Value;

use super::fault::{ArgumentFault, fault};
use super::validators::ArgumentValidator;
use super::{Cost, compile, shorten};

/// The most faults that are told of one call.
const MAX_FAULTS: usize = 10;
/// The most evaluations of subschemas of which the failed ones are told one by one.
const MAX_EXPLAINED: u64 = 20_000;
/// The most options of an enumeration that are told.
const MAX_OPTIONS: usize = 20;

/// A schema, compiled.
#[derive(Debug)]
pub(crate) struct Compiled {
    validator: Validator,
    cost: Cost,
}

impl Compiled {
    /// Compiles a schema that the catalog's reader has checked.
    pub(crate) fn new(schema: &Value) -> Result<Self, String> {
        let cost = Cost::new(schema).map_err(|fault| fault.message)?;
        let validator = compile(schema).map_err(|error| shorten(&error.to_string()))?;
        Ok(Self { validator, cost })
    }
}

impl ArgumentValidator for Compiled {
    fn accepts(&self, arguments: &Value) -> bool {
        self.cost.of(arguments).is_some() && self.validator.is_valid(arguments)
    }

    fn texts_for_structures(&self, arguments: &Value) -> Vec<String> {
        if self
            .cost
            .of(arguments)
            .is_none_or(|evaluations| evaluations > MAX_EXPLAINED)
        {
            return Vec::new();
        }
        let errors = self.validator.iter_errors(arguments);
        errors
            .filter(wants_structure)
            .take(MAX_FAULTS)
            .map(|error| error.instance_path().to_string())
            .collect()
    }

    fn faults(&self, arguments: &Value) -> Vec<ArgumentFault> {
        let whole = |keyword: &str, expected: &str| {
            vec![fault(
                String::new(),
                keyword,
                expected.to_owned(),
                arguments,
            )]
        };
        match self.cost.of(arguments) {
            None => whole(
                "limit",
                "fewer or flatter arguments: to hold these to the schema takes too long",
            ),
            // Each failed alternative keeps a copy of what it was tried on.
            Some(evaluations) if evaluations > MAX_EXPLAINED && !self.accepts(arguments) => whole(
                "limit",
                "what the schema asks for; the arguments are too large to say where they differ",
            ),
            Some(_) => self
                .validator
                .iter_errors(arguments)
                .take(MAX_FAULTS)
                .map(|error| describe(&error))
                .collect(),
        }
    }
}

/// Returns `true` if an error is about text in place of an object or an array, among what may stand
/// there.
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
    let expected = match error.kind() {
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
            "what {:?} asks for ({})",
            error.kind().keyword(),
            error.masked_with("the value")
        ),
    };
    fault(
        error.instance_path().to_string(),
        error.kind().keyword(),
        shorten(&expected),
        error.instance(),
    )
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
        let compiled = crate::schema::Check::new(schema, &crate::schema::JsonSchema)
            .expect("the schema is valid");
        let faults: Vec<String> = compiled
            .faults(arguments)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            compiled.accepts(arguments),
            faults.is_empty(),
            "{arguments}"
        );
        faults
    }

    #[test]
    fn faults_name_the_place_what_was_expected_and_what_was_received() {
        let schema = json!({"type": "object", "required": ["city"], "additionalProperties": false, "properties": {
            "city": {"type": "string", "minLength": 2},
            "unit": {"enum": ["celsius", "fahrenheit"]},
            "days": {"type": ["integer", "null"], "minimum": 1},
            "at": {"type": "object", "properties": {"a/b": {"type": "array", "items": {"type": "number"}}}},
        }});
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
    fn an_empty_schema_takes_no_arguments() {
        assert!(faults(&json!({}), &json!({})).is_empty());
        assert!(faults(&json!({}), &json!({"x": 1}))[0].contains("takes none"));
        assert!(faults(&json!({"type": "object"}), &json!({"x": 1})).is_empty());
    }

    #[test]
    fn what_is_told_is_bounded() {
        let many: Vec<Value> = (0..1000).map(|n| json!(n)).collect();
        let schema =
            json!({"properties": {"a": {"items": {"type": "string"}}, "b": {"enum": many}}});
        let told = faults(
            &schema,
            &json!({"a": vec![0; 1000], "b": "x".repeat(100_000)}),
        );
        assert!(
            told.len() <= MAX_FAULTS && told.iter().all(|fault| fault.len() < 1000),
            "{told:?}"
        );
    }

    #[test]
    fn schemas_of_older_drafts_hold() {
        let schema = json!({"$schema": "http://json-schema.org/draft-04/schema#",
            "properties": {"n": {"type": "number", "minimum": 0, "exclusiveMinimum": true}}});
        assert_eq!(faults(&schema, &json!({"n": 0})).len(), 1);
        let undeclared = json!({"properties": {"n": {"type": "number", "minimum": 0, "exclusiveMinimum": true}}});
        assert_eq!(
            faults(&undeclared, &json!({"n": 0})).len(),
            1,
            "of draft 4 without saying so"
        );
        let tuple = json!({"$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"p": {"items": [{"type": "string"}], "additionalItems": false}}});
        assert_eq!(faults(&tuple, &json!({"p": ["a", "b"]})).len(), 1);
    }

    #[test]
    fn recursive_schemas_end() {
        let tree = json!({"properties": {"tree": {"$ref": "#/$defs/node"}}, "$defs": {"node": {"type": "object",
            "required": ["name"], "properties": {"name": {"type": "string"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}}});
        assert!(
            faults(
                &tree,
                &json!({"tree": {"name": "a", "children": [{"name": "b"}]}})
            )
            .is_empty()
        );
        let told = faults(
            &tree,
            &json!({"tree": {"name": "a", "children": [{"children": []}]}}),
        );
        assert!(
            told[0].starts_with("/tree/children/0: expected the member \"name\""),
            "{told:?}"
        );
        let both = json!({"properties": {"a": {"$ref": "#"}}, "required": ["zz"]});
        let recursive = json!({"anyOf": [both.clone(), both]});
        let deep = (0..60).fold(json!({}), |inner, _| json!({"a": inner}));
        assert!(
            faults(&recursive, &deep)[0].contains("takes too long"),
            "sixty levels of two ways each"
        );
        assert!(faults(&recursive, &json!({"a": {}}))[0].contains("one of the allowed forms"));
    }
}
