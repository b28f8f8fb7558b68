//! Calls that wait for a person's approval.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use picktools_call::ApprovalQueue;
use pyo3::prelude::*;

use crate::calls::Call;
use crate::errors;

/// Calls that wait for a person's approval, for a limited time.
#[pyclass(frozen, module = "picktools", name = "Approvals")]
pub(crate) struct ApprovalTickets(Mutex<ApprovalQueue>);

impl ApprovalTickets {
    fn queue(&self) -> MutexGuard<'_, ApprovalQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl ApprovalTickets {
    /// Makes an empty queue. Its calls expire after `lifetime` seconds; five minutes by default.
    #[new]
    #[pyo3(signature = (lifetime = None))]
    fn new(lifetime: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(argument) = lifetime else {
            return Ok(Self(Mutex::new(ApprovalQueue::new(DEFAULT_LIFETIME))));
        };
        let seconds: f64 = argument
            .extract()
            .map_err(|_| errors::argument_type(argument, "lifetime", "seconds"))?;
        let lifetime = Duration::try_from_secs_f64(seconds)
            .map_err(|error| errors::argument(argument.py(), "lifetime", error))?;
        Ok(Self(Mutex::new(ApprovalQueue::new(lifetime))))
    }

    /// Lets a call wait for approval, and returns its ticket. The status of the call must be
    /// `needs_approval`.
    fn add(&self, call: &Bound<'_, PyAny>) -> PyResult<u64> {
        let Ok(checked) = call.cast::<Call>() else {
            let expected = "a Call, as validate returns it";
            return Err(errors::argument_type(call, "call", expected));
        };
        let Some(pending) = checked.get().pending() else {
            let message = format_args!("it is {}; add calls that need approval", checked.get());
            return Err(errors::argument(call.py(), "call", message));
        };
        let ticket = self.queue().push(pending.clone(), Instant::now());
        ticket.map_err(|error| errors::argument(call.py(), "call", error))
    }

    /// The waiting calls with their tickets, oldest first.
    #[getter]
    fn waiting(&self) -> Vec<(u64, Call)> {
        let mut calls = Vec::new();
        for (ticket, call) in self.queue().waiting(Instant::now()) {
            calls.push((ticket, Call::waiting(call.clone())));
        }
        calls
    }

    /// Approves a call, and returns it ready to run.
    fn approve(&self, ticket: &Bound<'_, PyAny>) -> PyResult<Call> {
        let approved = self.queue().approve(number(ticket)?, Instant::now());
        let approved = approved.map_err(|error| errors::argument(ticket.py(), "ticket", error))?;
        Ok(Call::ready(approved))
    }

    /// Denies a call, and returns it. `call.failed(reason)` tells the model.
    fn deny(&self, ticket: &Bound<'_, PyAny>) -> PyResult<Call> {
        let denied = self.queue().deny(number(ticket)?, Instant::now());
        let denied = denied.map_err(|error| errors::argument(ticket.py(), "ticket", error))?;
        Ok(Call::waiting(denied))
    }
}

/// The time after which a call expires by default.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(300);

fn number(ticket: &Bound<'_, PyAny>) -> PyResult<u64> {
    ticket
        .extract()
        .map_err(|_| errors::argument_type(ticket, "ticket", "the number of a waiting call"))
}
