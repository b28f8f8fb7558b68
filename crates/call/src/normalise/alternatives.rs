//! Values that match no alternative of `anyOf` or `oneOf`: they get the form that exactly one
//! alternative accepts.

use picktools::schema::ArgumentFault;
use serde_json::Value;

use super::argument_schema::{Alternative, ArgumentSchema, Normalised, is_at_or_inside};
use crate::Repair;

/// The most alternatives inside each other.
const MAX_LEVELS: usize = 4;
/// The most changes in one alternative.
const MAX_CHANGES: usize = 64;
/// The work in alternatives for one call, in faults, and the work of a check without faults.
pub(crate) const MAX_WORK: usize = 20_000;
const WORK_PER_CHECK: usize = 50;

impl ArgumentSchema<'_> {
    /// Mends a value in each of its alternatives. The change is made if exactly one form results.
    pub(super) fn mend_alternative(
        &self,
        fault: &ArgumentFault,
        arguments: &mut Value,
    ) -> Option<Vec<Repair>> {
        let mut forms: Vec<Normalised> = Vec::new();
        for index in 0..fault.alternatives.len() {
            let alternative = Alternative {
                outer: self.alternative,
                pointer: &fault.pointer,
                keyword: &fault.keyword,
                index,
            };
            if alternative.level() > MAX_LEVELS {
                return None;
            }
            let inner = ArgumentSchema {
                alternative: Some(&alternative),
                ..*self
            };
            let Some((mended, changes)) = inner.mend_inside(arguments) else {
                continue;
            };
            let is_known = forms.iter().any(|(form, _)| *form == mended);
            if !is_known && self.matches_at(&fault.pointer, &mended) {
                forms.push((mended, changes));
            }
        }
        // With more work, another form might be found.
        if self.work_left.get() == 0 || forms.len() > 1 {
            return None;
        }
        let (mended, changes) = forms.pop()?;
        *arguments = mended;
        Some(changes)
    }

    /// Mends the faults in the alternative one by one.
    fn mend_inside(&self, arguments: &Value) -> Option<Normalised> {
        let mut mended = arguments.clone();
        let mut changes = Vec::new();
        for _ in 0..=MAX_CHANGES {
            let faults = self.faults(&mended);
            if self.work_left.get() == 0 {
                return None;
            }
            if faults.is_empty() {
                return Some((mended, changes));
            }
            let change = faults
                .iter()
                .find_map(|fault| self.mend_fault(fault, &mut mended))?;
            changes.extend(change);
        }
        None
    }

    /// Subtracts the work of a check with these faults.
    pub(super) fn count_work(&self, faults: &[ArgumentFault]) {
        let work = WORK_PER_CHECK + count_faults(faults);
        self.work_left
            .set(self.work_left.get().saturating_sub(work));
    }

    fn matches_at(&self, pointer: &str, arguments: &Value) -> bool {
        let faults = self.faults(arguments);
        !faults
            .iter()
            .any(|fault| is_at_or_inside(&fault.pointer, pointer))
    }
}

/// Returns the number of faults, with those of alternatives.
fn count_faults(faults: &[ArgumentFault]) -> usize {
    let mut count = faults.len();
    for alternative in faults.iter().flat_map(|fault| &fault.alternatives) {
        count += count_faults(alternative);
    }
    count
}
