//! Faults of a shared store, and their reports.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::lock::lock;

/// The purpose of a command to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Purpose {
    /// Approved and quarantined definitions.
    Pins,
    /// Calls that are pending approval.
    Calls,
    /// The records of the audit log.
    Audit,
    /// The rate limits of keys.
    Rates,
    /// The circuit breakers of upstreams.
    Circuits,
    /// Sessions of clients.
    Sessions,
    /// The published catalog.
    Catalog,
}

impl Purpose {
    /// Returns the name in logs, `/health` and metrics.
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

/// The kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreFault {
    /// The store cannot be reached, or does not reply in time.
    Unreachable,
    /// The store is out of memory.
    Full,
    /// The store refuses a command, for example because the user lacks a permission.
    Refused,
    /// A key of ours holds foreign data.
    Foreign,
    /// The store was rolled back: acknowledged changes are missing.
    RolledBack,
}

impl StoreFault {
    /// Returns the name in logs, `/health` and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "away",
            Self::Full => "full",
            Self::Refused => "refuses",
            Self::Foreign => "foreign",
            Self::RolledBack => "older",
        }
    }

    /// Returns the advice for the operator.
    fn remedy(self) -> &'static str {
        match self {
            Self::Unreachable => {
                "check that the store runs and can be reached from here; the last known state \
                 stays in use"
            }
            Self::Full => "raise its memory limit (`maxmemory`) or free space",
            Self::Refused => "check the permissions of the --store user (`ACL GETUSER`)",
            Self::Foreign => {
                "another program's data is under this key; move it away or choose another --tenant"
            }
            Self::RolledBack => {
                "decide about the lost approvals: `picktools approve --store … --lost restore` or \
                 `--lost accept`"
            }
        }
    }
}

/// A failed command of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFailure {
    /// The kind of the failure.
    pub fault: StoreFault,
    /// The cause in words.
    pub message: String,
}

impl StoreFailure {
    /// Creates a failure of a kind with a message.
    pub fn new(fault: StoreFault, message: impl Into<String>) -> Self {
        Self {
            fault,
            message: message.into(),
        }
    }

    pub(crate) fn timed_out() -> Self {
        Self::new(StoreFault::Unreachable, "no reply in time")
    }
}

impl fmt::Display for StoreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.fault.remedy())
    }
}

/// A function that is called when a fault begins, and with `None` when it ends.
pub type FaultListener = dyn Fn(Purpose, Option<StoreFault>) + Send + Sync;

/// The current faults.
#[derive(Default)]
pub(super) struct Faults {
    /// The fault of each purpose, with the command that failed. A success of this command ends the
    /// fault. Without a command, only `ended` ends it.
    current: Mutex<BTreeMap<Purpose, (StoreFault, Option<String>)>>,
    /// The time until which no command is sent, with the reason.
    paused: Mutex<Option<(Instant, StoreFailure)>>,
    listener: OnceLock<Arc<FaultListener>>,
}

impl Faults {
    pub(super) fn set_listener(&self, listener: Arc<FaultListener>) {
        // The first listener of the process wins.
        drop(self.listener.set(listener));
    }

    pub(super) fn current(&self) -> Vec<(Purpose, StoreFault)> {
        lock(&self.current)
            .iter()
            .map(|(purpose, (fault, _))| (*purpose, *fault))
            .collect()
    }

    /// Returns the failure because of which no command is sent now.
    pub(super) fn paused(&self) -> Option<StoreFailure> {
        match &*lock(&self.paused) {
            Some((until, failure)) if *until > Instant::now() => Some(failure.clone()),
            _ => None,
        }
    }

    /// Records a failed command. If the store is unreachable, no command is sent for a while.
    pub(super) fn record_failure(
        &self,
        purpose: Purpose,
        command: &str,
        failure: &StoreFailure,
        pause: Duration,
        address: &str,
    ) {
        if failure.fault == StoreFault::Unreachable {
            *lock(&self.paused) = Some((Instant::now() + pause, failure.clone()));
        }
        self.begin_fault(purpose, failure, Some(command), address);
    }

    /// Records a successful command: the store is reachable again.
    pub(super) fn record_success(&self, purpose: Purpose, command: &str, address: &str) {
        let has_ended = |other: Purpose, (fault, failed_command): &(StoreFault, Option<String>)| {
            *fault == StoreFault::Unreachable
                || (other == purpose && failed_command.as_deref() == Some(command))
        };
        self.end_matching(has_ended, address);
    }

    /// Records a fault; `command` is `None` if no single command is the cause.
    pub(super) fn begin_fault(
        &self,
        purpose: Purpose,
        failure: &StoreFailure,
        command: Option<&str>,
        address: &str,
    ) {
        {
            let mut current = lock(&self.current);
            // A rollback stays reported even if the store is unreachable meanwhile.
            let stays = current.get(&purpose).is_some_and(|(fault, _)| {
                *fault == StoreFault::RolledBack || *fault == failure.fault
            });
            if stays {
                return;
            }
            drop(current.insert(purpose, (failure.fault, command.map(ToOwned::to_owned))));
        }
        let (purpose_name, fault, cause) =
            (purpose.name(), failure.fault.name(), failure.to_string());
        tracing::error!(
            target: "picktools::store", store = address, purpose = purpose_name, fault, %cause,
            "shared store failed"
        );
        self.notify(purpose, Some(failure.fault));
    }

    /// Ends the fault of a purpose that no single command caused.
    pub(super) fn end_fault(&self, purpose: Purpose, address: &str) {
        self.end_matching(
            |other, (_, failed_command)| other == purpose && failed_command.is_none(),
            address,
        );
    }

    fn end_matching(
        &self,
        has_ended: impl Fn(Purpose, &(StoreFault, Option<String>)) -> bool,
        address: &str,
    ) {
        let mut ended = Vec::new();
        lock(&self.current).retain(|purpose, fault| {
            let ends = has_ended(*purpose, fault);
            ended.extend(ends.then_some(*purpose));
            !ends
        });
        for purpose in ended {
            let purpose_name = purpose.name();
            tracing::info!(
                target: "picktools::store", store = address, purpose = purpose_name,
                "shared store recovered"
            );
            self.notify(purpose, None);
        }
    }

    fn notify(&self, purpose: Purpose, fault: Option<StoreFault>) {
        if let Some(listener) = self.listener.get() {
            listener(purpose, fault);
        }
    }
}

/// Describes faults in one line, without addresses or other private details.
pub fn describe_faults(faults: &[(Purpose, StoreFault)]) -> String {
    let descriptions: Vec<String> = faults
        .iter()
        .map(|(purpose, fault)| format!("{} ({})", fault.name(), purpose.name()))
        .collect();
    format!("store: {}", descriptions.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_is_reported_when_it_begins_and_ends() {
        let (faults, reports) = (Faults::default(), Arc::new(Mutex::new(Vec::new())));
        let listener_reports = Arc::clone(&reports);
        faults.set_listener(Arc::new(move |purpose, fault| {
            lock(&listener_reports).push(format!(
                "{} {}",
                purpose.name(),
                fault.map_or("well", StoreFault::name)
            ));
        }));
        let fail = |purpose, command, fault| {
            faults.record_failure(
                purpose,
                command,
                &StoreFailure::new(fault, "why"),
                Duration::ZERO,
                "here",
            );
        };
        for _ in 0..3 {
            fail(Purpose::Rates, "EVAL", StoreFault::Unreachable);
            fail(Purpose::Audit, "EVAL", StoreFault::Full);
        }
        // Reading succeeds; writing still fails.
        faults.record_success(Purpose::Audit, "HGET", "here");
        assert_eq!(faults.current(), [(Purpose::Audit, StoreFault::Full)]);
        faults.record_success(Purpose::Audit, "EVAL", "here");
        // A rollback stays until it is resolved, even if the store is unreachable meanwhile.
        faults.begin_fault(
            Purpose::Pins,
            &StoreFailure::new(StoreFault::RolledBack, "why"),
            None,
            "here",
        );
        fail(Purpose::Pins, "HMGET", StoreFault::Unreachable);
        faults.record_success(Purpose::Pins, "HMGET", "here");
        assert_eq!(faults.current(), [(Purpose::Pins, StoreFault::RolledBack)]);
        assert_eq!(
            describe_faults(&faults.current()),
            "store: older (approvals)"
        );
        faults.end_fault(Purpose::Pins, "here");
        let reports = lock(&reports).clone();
        assert_eq!(
            reports,
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
    fn commands_pause_after_one_without_a_reply() {
        let faults = Faults::default();
        let pause = Duration::from_millis(50);
        faults.record_failure(
            Purpose::Audit,
            "EVAL",
            &StoreFailure::new(StoreFault::Full, "why"),
            pause,
            "here",
        );
        assert_eq!(faults.paused(), None, "it answers");
        faults.record_failure(
            Purpose::Rates,
            "EVAL",
            &StoreFailure::timed_out(),
            pause,
            "here",
        );
        assert_eq!(faults.paused(), Some(StoreFailure::timed_out()));
        std::thread::sleep(pause);
        assert_eq!(faults.paused(), None);
    }
}
