//! A tool that calls a Rust function whose arguments have a Rust type.

use std::marker::PhantomData;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::context::Context;
use super::function::FunctionTool;
use super::result::{ErrorType, ToolResult};
use super::tool::{RunFuture, RunnableTool};
use picktools::catalog::Tool;
use picktools::schema::location;
use picktools_call::{CallError, ValidCall};

/// A tool that calls one asynchronous function. The type of its arguments gives the schema.
/// [`FunctionTool::typed`] makes it.
pub struct TypedTool<A, F> {
    definition: Tool,
    function: F,
    arguments: PhantomData<fn() -> A>,
}

impl FunctionTool<()> {
    /// Makes a tool whose schema comes from the type `A`: names, required members, defaults and
    /// doc comments, as `schemars` and `serde` read them. `A` is a struct, or another type that
    /// deserialises from an object.
    ///
    /// The manager validates the arguments against the schema, and the tool then deserialises
    /// them. If the type refuses a value that the schema accepts, such as a malformed address,
    /// the call fails with [`ErrorType::Validation`] and names the property.
    ///
    /// ```
    /// use picktools_runtime::{FunctionTool, RunnableTool, ToolResult};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct WeatherArguments {
    ///     /// The name of the city.
    ///     city: String,
    ///     days: Option<u8>,
    /// }
    ///
    /// let weather = FunctionTool::typed::<WeatherArguments, _, _>(
    ///     "get_weather",
    ///     "The weather in a city",
    ///     |arguments, _context| async move {
    ///         ToolResult::success().field("weather", format!("rain in {}", arguments.city))
    ///     },
    /// );
    /// let schema = weather.definition().parameters.as_ref();
    /// let properties = &schema.expect("it has a schema")["properties"];
    /// assert_eq!(properties["city"]["description"], "The name of the city.");
    /// ```
    pub fn typed<A, F, R>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: F,
    ) -> TypedTool<A, F>
    where
        A: JsonSchema + DeserializeOwned,
        F: Fn(A, Context) -> R + Send + Sync,
        R: Future<Output = ToolResult> + Send + 'static,
    {
        TypedTool {
            definition: Tool::with_parameters(name, description, schema_from_type::<A>()),
            function,
            arguments: PhantomData,
        }
    }
}

impl<A, F> TypedTool<A, F> {
    /// Changes the definition, for example its aliases or its safety.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Tool)) -> Self {
        change(&mut self.definition);
        self
    }
}

impl<A, F, R> RunnableTool for TypedTool<A, F>
where
    A: DeserializeOwned,
    F: Fn(A, Context) -> R + Send + Sync,
    R: Future<Output = ToolResult> + Send + 'static,
{
    fn definition(&self) -> &Tool {
        &self.definition
    }

    fn run<'a>(&'a self, call: &'a ValidCall, context: &'a Context) -> RunFuture<'a> {
        match call.arguments_as() {
            Ok(arguments) => Box::pin((self.function)(arguments, context.clone())),
            Err(error) => {
                let failure = ToolResult::failure(ErrorType::Validation, describe(&error));
                Box::pin(std::future::ready(failure))
            }
        }
    }
}

/// Returns the message of an error without the tool, which the manager prepends.
fn describe(error: &CallError) -> String {
    match error {
        CallError::Typed {
            pointer, reason, ..
        } => format!("{}: {reason}", location(pointer)),
        other => other.to_string(),
    }
}

/// Returns the JSON Schema (draft 2020-12) of a type, with its parts in their places. Only a type
/// that contains itself is referred to.
fn schema_from_type<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
        let bounds = RecursiveTransform(bound_integers);
        settings.transforms.push(Box::new(bounds));
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    // The name of the Rust type means nothing to a model.
    schema.remove("title");
    schema.to_value()
}

/// Adds the range of 32-bit integers, for which `schemars` gives a format only. For other integers
/// it gives the range, or the range is that of JSON numbers.
fn bound_integers(schema: &mut Schema) {
    let format = schema.get("format").and_then(Value::as_str);
    let (minimum, maximum) = match format {
        Some("int32") => (i64::from(i32::MIN), i64::from(i32::MAX)),
        Some("uint32") => (0, i64::from(u32::MAX)),
        _ => return,
    };
    for (keyword, bound) in [("minimum", minimum), ("maximum", maximum)] {
        if schema.get(keyword).is_none() {
            schema.insert(keyword.to_owned(), bound.into());
        }
    }
}
