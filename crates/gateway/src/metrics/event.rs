//! The events of a gateway that meters receive.

use std::time::Duration;

/// An event of a gateway. It contains names of the configuration and of tools, but no arguments and
/// no results.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum GatewayEvent<'a> {
    /// A call of a tool has ended.
    Call {
        /// The upstream.
        upstream: &'a str,
        /// The tool, by its id.
        tool: &'a str,
        /// The code of the refusal; `None` if the call was carried out.
        code: Option<&'a str>,
        /// The duration from the client's request to the answer.
        time: Duration,
    },
    /// A search has been answered.
    Search {
        /// The number of tools that were found.
        found: usize,
        /// The duration.
        time: Duration,
    },
    /// Tools were picked for a request over HTTP.
    Pick {
        /// The number of tools that were found.
        found: usize,
        /// The duration.
        time: Duration,
    },
    /// A request over HTTP was answered, or refused.
    Request {
        /// The route, without parts that a client chooses; `other` if no route matches.
        path: &'a str,
        /// The status of the response.
        status: u16,
        /// The time until the response began.
        time: Duration,
    },
    /// A client was shown a list of tools.
    List {
        /// The tokens of the list (o200k).
        tokens: usize,
        /// The tokens of all tools that the client may see.
        all_tokens: usize,
    },
    /// An upstream became reachable or unreachable.
    Upstream {
        /// The name in the configuration.
        name: &'a str,
        /// `true` if it is reachable.
        up: bool,
    },
    /// A request to a model has been passed on.
    Model {
        /// The reason why the request was passed on unchanged; `None` if its tools were narrowed.
        unchanged: Option<&'a str>,
        /// The tokens (o200k) of the definitions that the model was not shown.
        saved: usize,
        /// The time until the request was passed on.
        time: Duration,
    },
    /// A fault of the shared store began or ended.
    Store {
        /// The purpose of the commands.
        purpose: &'a str,
        /// The fault; `None` after it has ended.
        fault: Option<&'a str>,
    },
    /// A snapshot of the tools was built, or could not be built.
    Snapshot {
        /// `true` if it was built; otherwise an earlier one stays in use.
        is_current: bool,
    },
    /// A client connected or disconnected.
    Session {
        /// `true` if it connected.
        begun: bool,
    },
}
