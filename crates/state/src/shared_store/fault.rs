//! What is wrong with a store, and who is told.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::lock::lock;

/// What a store is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Purpose {
    /// What was approved, and what waits.
    Pins,
    /// Calls that wait for the operator.
    Calls,
    /// The records of what was decided.
    Audit,
    /// How many requests keys have left.
    Rates,
    /// Which servers are left alone.
    Circuits,
    /// Sessions of clients.
    Sessions,
    /// The catalog that was published there.
    Catalog,
}

impl Purpose {
    /// Returns its name in logs, `/health` and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pins => "approvals",
            Self::Calls => "calls",
            Self::Audit => "audit",
            Self::Rates => "rates",
            Self::Circuits => "circuits",
            Self::Sessions => "sessions",
            Self::Catalog => "catalog",
        }
    }
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It cannot be reached, or does not answer in time.
    Away,
    /// It takes nothing more.
    Full,
    /// It refuses, as where a user may not do something.
    Refused,
    /// What lies under a key of ours is not ours.
    Foreign,
    /// It has an older copy than it had before: what was acknowledged since is not there.
    Older,
}

impl Fault {
    /// Returns its name in logs, `/health` and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Away => "away",
            Self::Full => "full",
            Self::Refused => "refuses",
            Self::Foreign => "foreign",
            Self::Older => "older",
        }
    }

    /// What to do about it.
    fn remedy(self) -> &'static str {
        match self {
            Self::Away => {
                "look whether it runs and can be reached from here; what there was stays meanwhile"
            }
            Self::Full => "give it more memory (`maxmemory`), or make room in it",
            Self::Refused => "look at what the user of --store may do there (`ACL GETUSER`)",
            Self::Foreign => {
                "somebody else's data lies under a key of ours: move it away, or take another --tenant"
            }
            Self::Older => {
                "look at what was lost: `picktools approve --store … --lost restore` or `--lost accept`"
            }
        }
    }
}

/// A reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind of it.
    pub fault: Fault,
    /// The reason in words.
    pub message: String,
}

impl Failure {
    /// Makes one of a fault, and of what is said of it.
    pub fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self {
            fault,
            message: message.into(),
        }
    }

    pub(crate) fn late() -> Self {
        Self::new(Fault::Away, "it did not answer in time")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.fault.remedy())
    }
}

/// A function that hears when a fault of a store begins, and when it ends: then there is none for
/// the purpose any longer.
pub type FaultListener = dyn Fn(Purpose, Option<Fault>) + Send + Sync;

/// What is wrong now.
#[derive(Default)]
pub(super) struct Faults {
    /// With the command that it was found by, which ends it when it succeeds; none where it is not
    /// about one.
    now: Mutex<BTreeMap<Purpose, (Fault, Option<String>)>>,
    /// Until when nothing is asked, and why.
    paused: Mutex<Option<(Instant, Failure)>>,
    listener: OnceLock<Arc<FaultListener>>,
}

impl Faults {
    pub(super) fn tell(&self, listener: Arc<FaultListener>) {
        // The first gateway of the process is told.
        drop(self.listener.set(listener));
    }

    pub(super) fn all(&self) -> Vec<(Purpose, Fault)> {
        lock(&self.now)
            .iter()
            .map(|(purpose, (fault, _))| (*purpose, *fault))
            .collect()
    }

    /// Why nothing is asked now.
    pub(super) fn paused(&self) -> Option<Failure> {
        let paused = lock(&self.paused);
        paused
            .as_ref()
            .filter(|(until, _)| *until > Instant::now())
            .map(|(_, failure)| failure.clone())
    }

    /// Notes that a command failed; where nothing answers, that nothing is asked for a while.
    pub(super) fn failed(
        &self,
        purpose: Purpose,
        command: &str,
        failure: &Failure,
        pause: Duration,
        address: &str,
    ) {
        if failure.fault == Fault::Away {
            *lock(&self.paused) = Some((Instant::now() + pause, failure.clone()));
        }
        self.begin(purpose, failure, Some(command), address);
    }

    /// Notes that a command was done: nothing is away any longer.
    pub(super) fn answered(&self, purpose: Purpose, command: &str, address: &str) {
        let has_ended = |of: Purpose, (fault, by): &(Fault, Option<String>)| {
            *fault == Fault::Away || (of == purpose && by.as_deref() == Some(command))
        };
        self.end(has_ended, address);
    }

    /// Notes what is wrong and is not about a command.
    pub(super) fn begin(
        &self,
        purpose: Purpose,
        failure: &Failure,
        command: Option<&str>,
        address: &str,
    ) {
        {
            let mut now = lock(&self.now);
            // What is away now may still be an older copy, and that is what stays to be seen to.
            let is_kept = now
                .get(&purpose)
                .is_some_and(|(fault, _)| *fault == Fault::Older || *fault == failure.fault);
            if is_kept {
                return;
            }
            drop(now.insert(purpose, (failure.fault, command.map(ToOwned::to_owned))));
        }
        let (of, fault, why) = (purpose.name(), failure.fault.name(), failure.to_string());
        tracing::error!(target: "picktools::store", store = address, of, fault, %why, "the store fails");
        self.record(purpose, Some(failure.fault));
    }

    /// Notes that what was not about a command is no longer so.
    pub(super) fn ended(&self, purpose: Purpose, address: &str) {
        self.end(|of, (_, by)| of == purpose && by.is_none(), address);
    }

    fn end(&self, has_ended: impl Fn(Purpose, &(Fault, Option<String>)) -> bool, address: &str) {
        let mut ended = Vec::new();
        lock(&self.now).retain(|of, fault| {
            let ends = has_ended(*of, fault);
            ended.extend(ends.then_some(*of));
            !ends
        });
        for purpose in ended {
            let of = purpose.name();
            tracing::info!(target: "picktools::store", store = address, of, "the store does again");
            self.record(purpose, None);
        }
    }

    fn record(&self, purpose: Purpose, fault: Option<Fault>) {
        if let Some(listener) = self.listener.get() {
            listener(purpose, fault);
        }
    }
}

/// Tells what is wrong, as one line without anything that is not for everybody.
pub fn told_in_words(faults: &[(Purpose, Fault)]) -> String {
    let told: Vec<String> = faults
        .iter()
        .map(|(purpose, fault)| format!("{} ({})", fault.name(), purpose.name()))
        .collect();
    format!("store: {}", told.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_told_when_it_begins_and_when_it_ends_and_not_for_each_command() {
        let (faults, told) = (Faults::default(), Arc::new(Mutex::new(Vec::new())));
        let hears = Arc::clone(&told);
        faults.tell(Arc::new(move |purpose, fault| {
            lock(&hears).push(format!(
                "{} {}",
                purpose.name(),
                fault.map_or("well", Fault::name)
            ));
        }));
        let failed = |purpose, command, fault| {
            faults.failed(
                purpose,
                command,
                &Failure::new(fault, "why"),
                Duration::ZERO,
                "here",
            );
        };
        for _ in 0..3 {
            failed(Purpose::Rates, "EVAL", Fault::Away);
            failed(Purpose::Audit, "EVAL", Fault::Full);
        }
        // Reading what is there goes well; writing still does not.
        faults.answered(Purpose::Audit, "HGET", "here");
        assert_eq!(faults.all(), [(Purpose::Audit, Fault::Full)]);
        faults.answered(Purpose::Audit, "EVAL", "here");
        // An older copy stays one until it is seen to, also where the store is away meanwhile.
        faults.begin(
            Purpose::Pins,
            &Failure::new(Fault::Older, "why"),
            None,
            "here",
        );
        failed(Purpose::Pins, "HMGET", Fault::Away);
        faults.answered(Purpose::Pins, "HMGET", "here");
        assert_eq!(faults.all(), [(Purpose::Pins, Fault::Older)]);
        assert_eq!(told_in_words(&faults.all()), "store: older (approvals)");
        faults.ended(Purpose::Pins, "here");
        let told = lock(&told).clone();
        assert_eq!(
            told,
            [
                "rates away",
                "audit full",
                "rates well",
                "audit well",
                "approvals older",
                "approvals well"
            ]
        );
    }

    #[test]
    fn after_a_command_that_was_not_answered_none_is_tried_for_a_while() {
        let faults = Faults::default();
        let pause = Duration::from_millis(50);
        faults.failed(
            Purpose::Audit,
            "EVAL",
            &Failure::new(Fault::Full, "why"),
            pause,
            "here",
        );
        assert_eq!(faults.paused(), None, "it answers");
        faults.failed(Purpose::Rates, "EVAL", &Failure::late(), pause, "here");
        assert_eq!(faults.paused(), Some(Failure::late()));
        std::thread::sleep(pause);
        assert_eq!(faults.paused(), None);
    }
}
