//! Normalisation of arguments: changes that keep their one meaning under the schema.
//!
//! Models send `"5"` for an integer, `orderId` for `order_id`, or the arguments inside an object
//! `arguments`. Each such change is made only if the schema refuses the original form and accepts
//! exactly one changed form. Every change is named. Normalisation applies to unsafe tools too.

mod alternatives;
mod argument_schema;
mod candidates;
mod properties;
mod wrappers;

use picktools::schema::{ArgumentFault, pointer_part};
use serde_json::{Map, Value, json};

pub(crate) use self::alternatives::MAX_WORK;
pub(crate) use self::argument_schema::ArgumentSchema;
use self::argument_schema::{Normalised, is_at_or_inside};
use self::candidates::{candidates, decoded_structure, is_null_text};
use self::properties::Properties;
use crate::Repair;
pub use properties::UnknownProperty;
pub(crate) use properties::unknown_properties;

/// The largest number of changes for one call, plus one final check.
const MAX_ROUNDS: usize = 64;
/// The largest number of objects and texts around the arguments that are removed.
const MAX_WRAPPERS: usize = 4;
/// The keywords of faults that another type or spelling of the value may mend.
const VALUE_KEYWORDS: [&str; 5] = ["type", "enum", "const", "anyOf", "oneOf"];
/// The keywords of faults that another name of a property may mend.
const NAME_KEYWORDS: [&str; 3] = ["required", "additionalProperties", "unevaluatedProperties"];

impl ArgumentSchema<'_> {
    /// Returns the arguments in the form that the schema accepts; `None` if they have no such form,
    /// or several.
    pub(crate) fn normalise(&self, arguments: &Value) -> Option<Normalised> {
        if let Some(mended) = self.mend(arguments) {
            return Some(mended);
        }
        let mut inner = arguments.clone();
        let mut changes = Vec::new();
        for _ in 0..MAX_WRAPPERS {
            let (unwrapped, change) = wrappers::unwrap(self, &inner)?;
            inner = unwrapped;
            changes.push(change);
            if let Some((mended, mut more)) = self.mend(&inner) {
                changes.append(&mut more);
                return Some((mended, changes));
            }
        }
        None
    }

    /// Mends the faults of the arguments one by one, without changing their outer form.
    fn mend(&self, arguments: &Value) -> Option<Normalised> {
        let mut mended = arguments.clone();
        let mut changes = Vec::new();
        if is_no_arguments(&mended) && self.accepts(&json!({})) {
            let from = std::mem::replace(&mut mended, json!({}));
            changes.push(Repair::Converted {
                pointer: String::new(),
                from,
                to: json!({}),
            });
            return Some((mended, changes));
        }
        for _ in 0..MAX_ROUNDS {
            if self.accepts(&mended) {
                return Some(self.with_names(mended, changes));
            }
            let faults = self.faults(&mended);
            let change = faults
                .iter()
                .find_map(|fault| self.mend_fault(fault, &mut mended))?;
            changes.extend(change);
        }
        None
    }

    /// Returns `true` for an object that the schema accepts.
    fn accepts(&self, arguments: &Value) -> bool {
        arguments.is_object() && self.check.accepts(arguments)
    }

    /// Corrects the spelling of accepted properties that the schema does not list, if the schema
    /// accepts the result.
    fn with_names(&self, accepted: Value, mut changes: Vec<Repair>) -> Normalised {
        let objects = properties::objects(self.schema, &accepted);
        if objects.is_empty() {
            return (accepted, changes);
        }
        let mut renamed = accepted.clone();
        let mut more = Vec::new();
        for (pointer, properties) in objects {
            while properties.are_complete()
                && let Some(change) = properties.correct_name(&pointer, &mut renamed)
            {
                more.push(change);
            }
        }
        if more.is_empty() {
            return (accepted, changes);
        }
        for _ in 0..MAX_ROUNDS {
            if self.accepts(&renamed) {
                changes.append(&mut more);
                return (renamed, changes);
            }
            let faults = self.faults(&renamed);
            match faults
                .iter()
                .find_map(|fault| self.mend_fault(fault, &mut renamed))
            {
                Some(changes) => more.extend(changes),
                None => break,
            }
        }
        (accepted, changes)
    }

    /// Mends one fault, if it has one remedy.
    fn mend_fault(&self, fault: &ArgumentFault, arguments: &mut Value) -> Option<Vec<Repair>> {
        if NAME_KEYWORDS.contains(&fault.keyword.as_str()) {
            let properties = Properties::at(self.schema, &fault.pointer);
            let change = properties.correct_name(&fault.pointer, arguments)?;
            return Some(vec![change]);
        }
        if !VALUE_KEYWORDS.contains(&fault.keyword.as_str()) {
            return None;
        }
        if let Some(change) = self.mend_value(fault, arguments) {
            return Some(vec![change]);
        }
        self.mend_alternative(fault, arguments)
    }

    /// Replaces a value that has another type or spelling.
    fn mend_value(&self, fault: &ArgumentFault, arguments: &mut Value) -> Option<Repair> {
        let from = arguments.pointer(&fault.pointer)?.clone();
        if from.is_null() {
            return self.remove_null(&fault.pointer, arguments);
        }
        let schemas = properties::schemas_at(self.schema, &fault.pointer);
        if let Some(structure) = decoded_structure(&from, &schemas)
            && self.fits_around(&fault.pointer, &structure, arguments)
        {
            *arguments.pointer_mut(&fault.pointer)? = structure;
            return Some(Repair::Decoded {
                pointer: fault.pointer.clone(),
            });
        }
        // With several conversions the meaning is not clear.
        let items = properties::schemas_at(self.schema, &format!("{}/0", fault.pointer));
        let mut fitting = candidates(&from, &schemas, &items);
        fitting.retain(|to| self.fits(&fault.pointer, to, arguments));
        if fitting.is_empty() && is_null_text(&from, &schemas) {
            return self.remove_null(&fault.pointer, arguments);
        }
        let [to] = &fitting[..] else { return None };
        *arguments.pointer_mut(&fault.pointer)? = to.clone();
        Some(Repair::Converted {
            pointer: fault.pointer.clone(),
            from,
            to: to.clone(),
        })
    }

    /// Returns `true` if the arguments have no fault at or inside a value that is replaced.
    fn fits(&self, pointer: &str, value: &Value, arguments: &Value) -> bool {
        let faults = self.faults_with(pointer, value, arguments);
        !faults
            .iter()
            .any(|fault| is_at_or_inside(&fault.pointer, pointer))
    }

    /// Returns `true` if the arguments have no fault at a value that is replaced, except for its
    /// parts, which can be mended next.
    fn fits_around(&self, pointer: &str, value: &Value, arguments: &Value) -> bool {
        let faults = self.faults_with(pointer, value, arguments);
        let is_refused = |fault: &ArgumentFault| {
            fault.pointer == pointer && VALUE_KEYWORDS.contains(&fault.keyword.as_str())
        };
        !faults.iter().any(is_refused)
    }

    /// Returns the faults of the arguments; in an alternative, only the faults in it.
    fn faults(&self, arguments: &Value) -> Vec<ArgumentFault> {
        let faults = self.check.faults(arguments);
        let Some(alternative) = self.alternative else {
            return faults;
        };
        self.count_work(&faults);
        alternative.select(faults)
    }

    fn faults_with(&self, pointer: &str, value: &Value, arguments: &Value) -> Vec<ArgumentFault> {
        let mut changed = arguments.clone();
        if let Some(place) = changed.pointer_mut(pointer) {
            *place = value.clone();
        }
        self.faults(&changed)
    }

    /// Removes a property whose value is null or the text of null, if the schema does not require it.
    fn remove_null(&self, pointer: &str, arguments: &mut Value) -> Option<Repair> {
        let (parent, part) = pointer.rsplit_once('/')?;
        let name = picktools::schema::name_from_pointer_part(part);
        let properties = Properties::at(self.schema, parent);
        if !properties.lists(&name) || properties.requires(&name) {
            return None;
        }
        let object: &mut Map<String, Value> = arguments.pointer_mut(parent)?.as_object_mut()?;
        object.shift_remove(&name)?;
        Some(Repair::Removed {
            pointer: format!("{parent}/{}", pointer_part(&name)),
        })
    }
}

/// Returns `true` for the values that models send to a tool without arguments.
fn is_no_arguments(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
