//! Valid calls, pending calls, and the confirmation: the only value that makes a pending call
//! valid.

use std::pin::Pin;
use std::sync::Arc;

use picktools::catalog::{NoSchemaMode, Tool};
use picktools::names::ResolvedVia;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::changes::Repair;
use super::definition::relevant_members;
use super::error::CallError;
use super::normalise::UnknownProperty;
use super::pending::PendingReason;
use super::typed;

/// The name under which approvals of tickets are recorded.
const APPROVAL: &str = "approval";

/// A call whose arguments were validated against the tool's schema, or whose tool may run without
/// one.
#[derive(Debug, Clone, Serialize)]
pub struct ValidCall {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    #[serde(serialize_with = "serialize_tool_id")]
    pub(super) tool: Arc<Tool>,
    #[serde(rename = "unsafe", skip_serializing_if = "std::ops::Not::not")]
    pub(super) marked_unsafe: bool,
    pub(super) names: CallNames,
    pub(super) resolved_via: ResolvedVia,
    pub(super) deprecated: bool,
    pub(super) arguments: Value,
    pub(super) validated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) no_schema_mode: Option<NoSchemaMode>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) repaired: Vec<Repair>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unknown: Vec<UnknownProperty>,
    #[serde(rename = "confirmed", skip_serializing_if = "Option::is_none")]
    pub(super) confirmation: Option<Confirmation>,
}

/// The names of a call's tool, for logs and audits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallNames {
    /// The called name.
    pub requested: String,
    /// The name that the model was shown, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertised: Option<String>,
    /// The tool's own name.
    pub canonical: String,
    /// `true` if the called name is a deprecated alias.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
}

impl ValidCall {
    /// Returns the call's id, under which its result must be returned, if the provider gave one.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Returns the tool.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// Returns the names of the call's tool.
    pub fn names(&self) -> &CallNames {
        &self.names
    }

    /// Returns the way in which the called name was resolved.
    pub fn resolved_via(&self) -> ResolvedVia {
        self.resolved_via
    }

    /// Returns `true` if the called name is a deprecated alias.
    pub fn deprecated(&self) -> bool {
        self.deprecated
    }

    /// Returns the arguments.
    pub fn arguments(&self) -> &Value {
        &self.arguments
    }

    /// Deserialises the arguments. A number such as `3.0` counts as an integer, as in JSON Schema.
    ///
    /// # Errors
    ///
    /// [`CallError::Typed`] if they do not match the type, even though they match the schema.
    pub fn arguments_as<T: DeserializeOwned>(&self) -> Result<T, CallError> {
        typed::deserialise(&self.arguments).map_err(|fault| CallError::Typed {
            tool: self.tool.id.clone(),
            pointer: fault.pointer,
            reason: fault.reason,
        })
    }

    /// Returns `true` if the arguments were validated against a schema; `false` if the tool has
    /// none.
    pub fn validated(&self) -> bool {
        self.validated
    }

    /// Returns the mode of a tool without a schema.
    pub fn no_schema_mode(&self) -> Option<NoSchemaMode> {
        self.no_schema_mode
    }

    /// Returns the changes of the arguments; empty if none was needed.
    pub fn repaired(&self) -> &[Repair] {
        &self.repaired
    }

    /// Returns the properties that the schema does not list and that are probably misspelt. The
    /// tool gets them as they are.
    pub fn unknown_properties(&self) -> &[UnknownProperty] {
        &self.unknown
    }

    /// Returns the confirmation of a call that had to wait for one.
    pub fn confirmation(&self) -> Option<&Confirmation> {
        self.confirmation.as_ref()
    }
}

fn serialize_tool_id<S: serde::Serializer>(
    tool: &Arc<Tool>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&tool.id)
}

/// A call that waits for a person or a policy; see [`ApprovalQueue`](super::ApprovalQueue) and
/// [`PendingCall::ask`].
#[derive(Debug, Clone, Serialize)]
pub struct PendingCall {
    #[serde(flatten)]
    pub(super) call: ValidCall,
    pub(super) awaits: PendingReason,
}

impl PendingCall {
    /// Makes a valid call wait for a confirmation, even if it had one.
    pub fn new(mut call: ValidCall, awaits: PendingReason) -> Self {
        call.confirmation = None;
        Self { call, awaits }
    }

    /// Returns the tool.
    pub fn tool(&self) -> &Arc<Tool> {
        self.call.tool()
    }

    /// Returns the arguments, which match the tool's schema if it has one.
    pub fn arguments(&self) -> &Value {
        self.call.arguments()
    }

    /// Returns the reason for which the call waits.
    pub fn awaits(&self) -> &PendingReason {
        &self.awaits
    }

    /// Returns the names of the call's tool.
    pub fn names(&self) -> &CallNames {
        self.call.names()
    }

    /// Returns `true` if the called name is a deprecated alias.
    pub fn deprecated(&self) -> bool {
        self.call.deprecated()
    }
}

/// Decides on pending calls: it asks a person, or applies a policy.
///
/// An implementation is the place at which a program decides. Its `Ok` is the only source of a
/// [`Confirmation`] apart from an approval in an [`ApprovalQueue`](super::ApprovalQueue).
pub trait CallDecider: Send + Sync {
    /// The answer for a call that is not allowed.
    type Refusal;

    /// Decides on a call; [`PendingCall::awaits`] says why it waits. `Ok` allows this one call, and
    /// names the decider for records.
    fn decide<'a>(&'a self, call: &'a PendingCall) -> DeciderFuture<'a, Self::Refusal>;
}

/// The future of [`CallDecider::decide`].
pub type DeciderFuture<'a, R> = Pin<Box<dyn Future<Output = Result<&'static str, R>> + Send + 'a>>;

/// The decision of a person or a policy that one pending call may run.
///
/// It is made by [`PendingCall::ask`] or [`ApprovalQueue::approve`](super::ApprovalQueue::approve),
/// and it holds for one tool definition with one set of arguments. The type system guarantees that
/// a decider or an approval saw a call before it became valid. It does not guarantee that the
/// decider asked a person, that the decision is recent, or that the call runs only once.
///
/// ```
/// use picktools::catalog::Safety;
/// use picktools::{Access, Catalog, Tool};
/// use picktools_call::{CallDecider, DeciderFuture, HydratedCall, Hydrator, PendingCall};
/// use picktools_provider::{Arguments, ToolCall};
/// use serde_json::json;
///
/// /// Allows every call, for a test.
/// struct AllowAll;
///
/// impl CallDecider for AllowAll {
///     type Refusal = String;
///
///     fn decide<'a>(&'a self, _: &'a PendingCall) -> DeciderFuture<'a, String> {
///         Box::pin(async { Ok("test policy") })
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut pay = Tool::without_arguments("pay", "Pays the bill");
/// let required_approvals = vec!["finance".to_owned()];
/// pay.safety = Some(Safety { threat_level: None, required_approvals });
/// let hydrator = Hydrator::new(Catalog::from_tools([pay])?, &Access::default())?;
/// let arguments = Arguments::Json(json!({}));
/// let call = ToolCall { id: None, name: "pay".to_owned(), arguments };
/// let HydratedCall::NeedsApproval(pending) = hydrator.hydrate(&call)? else { unreachable!() };
/// let confirmation = pending.ask(&AllowAll).await?;
/// let valid = pending.confirm(confirmation)?;
/// assert_eq!(valid.confirmation().map(|confirmation| confirmation.by()), Some("test policy"));
/// # Ok(())
/// # }
/// ```
///
/// Nothing else makes one:
///
/// ```compile_fail,E0451
/// use picktools_call::{Confirmation, PendingReason};
///
/// let forged = Confirmation { by: "me", reason: PendingReason::Confirmation, call: [0; 32] };
/// ```
///
/// ```compile_fail,E0277
/// let forged: picktools_call::Confirmation = serde_json::from_str("{}").unwrap();
/// ```
///
/// A pending call does not give its valid call away without one:
///
/// ```compile_fail,E0599
/// fn release(pending: picktools_call::PendingCall) -> picktools_call::ValidCall {
///     pending.into_parts().0
/// }
/// ```
///
/// ```compile_fail,E0616
/// fn release(pending: picktools_call::PendingCall) -> picktools_call::ValidCall {
///     pending.call
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Confirmation {
    by: &'static str,
    reason: PendingReason,
    /// The digest of the tool's definition and the arguments.
    #[serde(skip)]
    call: [u8; 32],
}

/// Error of a confirmation that is for another call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot confirm the call of {tool}: the confirmation is for other arguments or another \
     definition; ask for a confirmation of this call"
)]
pub struct OtherCallError {
    /// The id of the tool.
    pub tool: String,
}

impl Confirmation {
    /// Makes the confirmation of an approved ticket.
    pub(super) fn from_approval(call: &PendingCall) -> Self {
        Self::new(APPROVAL, call)
    }

    fn new(by: &'static str, call: &PendingCall) -> Self {
        Self {
            by,
            reason: call.awaits.clone(),
            call: digest_call(call.tool(), call.arguments()),
        }
    }

    /// Returns the name of the decider, or `approval` for an approved ticket.
    pub fn by(&self) -> &str {
        self.by
    }

    /// Returns the reason for which the call waited.
    pub fn reason(&self) -> &PendingReason {
        &self.reason
    }

    /// Returns `true` if the confirmation is for this call and for the reason for which it waits.
    pub fn is_for(&self, call: &PendingCall) -> bool {
        self.covers(&call.awaits) && self.call == digest_call(call.tool(), call.arguments())
    }

    /// Returns `true` if the decision holds for a call that waits for this reason. A decision about
    /// a policy of the tool includes the question if the call may run at all.
    pub(super) fn covers(&self, reason: &PendingReason) -> bool {
        self.reason == *reason || *reason == PendingReason::Confirmation
    }
}

impl PendingCall {
    /// Asks a decider if the call may run. The confirmation is for this call only.
    ///
    /// # Errors
    ///
    /// The decider's refusal.
    pub async fn ask<D: CallDecider + ?Sized>(
        &self,
        decider: &D,
    ) -> Result<Confirmation, D::Refusal> {
        let by = decider.decide(self).await?;
        Ok(Confirmation::new(by, self))
    }

    /// Makes the call valid.
    ///
    /// # Errors
    ///
    /// [`OtherCallError`] if the confirmation is not for this call.
    pub fn confirm(self, confirmation: Confirmation) -> Result<ValidCall, OtherCallError> {
        if !confirmation.is_for(&self) {
            let tool = self.call.tool.id.clone();
            return Err(OtherCallError { tool });
        }
        Ok(self.into_valid(confirmation))
    }

    pub(super) fn into_valid(self, confirmation: Confirmation) -> ValidCall {
        ValidCall {
            confirmation: Some(confirmation),
            ..self.call
        }
    }
}

/// Digests a call: the relevant members of its definition, and its arguments.
fn digest_call(tool: &Tool, arguments: &Value) -> [u8; 32] {
    let members = relevant_members(tool);
    Sha256::digest(json!([members, arguments]).to_string()).into()
}
