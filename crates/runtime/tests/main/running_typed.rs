//! Tests of tools whose schema comes from a Rust type: what the schema accepts, the type accepts.

use std::collections::BTreeMap;
use std::net::IpAddr;

use picktools::schema::{JsonSchema as JsonSchemaCompiler, SchemaCompiler};
use picktools::{Access, Tool};
use picktools_provider::{Arguments, ToolCall};
use picktools_runtime::{
    Context, ErrorType, ExecutedCall, FunctionTool, RunnableTool, ToolManager, ToolResult,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Where and how the weather is measured.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WeatherArguments {
    /// The name of the city.
    city: String,
    /// The unit of the temperature.
    #[serde(default)]
    temperature_unit: Unit,
    days_ahead: Option<u8>,
    #[serde(default = "two")]
    decimals: u32,
    offset: Option<i32>,
    place: Option<Place>,
    #[serde(default)]
    stations: Vec<Station>,
    #[serde(default)]
    labels: BTreeMap<String, f64>,
}

fn two() -> u32 {
    2
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Unit {
    #[default]
    DegreesCelsius,
    /// Used in the United States.
    DegreesFahrenheit,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Place {
    latitude: f64,
    longitude: f64,
    #[serde(rename = "type")]
    kind: Option<PlaceKind>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
enum PlaceKind {
    Coast,
    Inland,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Station {
    Airport { code: String },
    PrivateGarden { owner: String, height: i16 },
}

/// A type that refers to itself.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Folder {
    name: String,
    #[serde(default)]
    folders: Vec<Self>,
}

/// A type whose schema accepts more than its deserialiser.
#[derive(Debug, Deserialize, JsonSchema)]
struct PingArguments {
    target: Target,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Target {
    addresses: Vec<IpAddr>,
}

fn typed<A>(name: &str) -> impl RunnableTool + 'static
where
    A: JsonSchema + Serialize + for<'de> Deserialize<'de> + Send + 'static,
{
    FunctionTool::typed::<A, _, _>(name, "A tool", |arguments: A, _context| async move {
        let arguments = serde_json::to_value(arguments).expect("it is JSON");
        ToolResult::success().field("arguments", arguments)
    })
}

fn manager(tool: impl RunnableTool + 'static) -> ToolManager {
    let builder = ToolManager::builder(Access::default());
    builder.tool(tool).build().expect("it is valid")
}

async fn run(manager: &ToolManager, name: &str, arguments: Value) -> ExecutedCall {
    let call = ToolCall {
        id: None,
        name: name.to_owned(),
        arguments: Arguments::Json(arguments),
    };
    manager.clear_current_turn();
    manager.execute(&call).await
}

fn schema_from(tool: &impl RunnableTool) -> Value {
    let schema = tool.definition().parameters.clone();
    schema.expect("a typed tool has a schema")
}

#[test]
fn schema_of_a_type_has_its_names_and_docs() {
    let schema = schema_from(&typed::<WeatherArguments>("get_weather"));
    let properties = &schema["properties"];
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["required"], json!(["city"]));
    assert_eq!(schema["additionalProperties"], json!(false));
    assert_eq!(
        schema["description"],
        "Where and how the weather is measured."
    );
    assert!(schema.get("title").is_none() && schema.get("$schema").is_none());
    assert_eq!(
        properties["city"],
        json!({"type": "string", "description": "The name of the city."})
    );
    assert_eq!(
        properties["temperatureUnit"]["description"],
        "The unit of the temperature."
    );
    assert_eq!(properties["temperatureUnit"]["default"], "degrees-celsius");
    assert_eq!(properties["decimals"]["default"], 2);
    // Parts are in their places, so that every model reads them.
    assert!(!schema.to_string().contains("$ref"), "{schema}");
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_and_type_agree() {
    let manager = manager(typed::<WeatherArguments>("get_weather"));
    let schema = schema_from(&typed::<WeatherArguments>("get_weather"));
    let validator = JsonSchemaCompiler.compile(&schema);
    let validator = validator.expect("it compiles");
    let with = |name: &str, value: Value| {
        let mut arguments = json!({"city": "Bergen"});
        arguments[name] = value;
        arguments
    };
    let garden = json!({"kind": "private_garden", "owner": "Ada", "height": -3});
    let samples = [
        json!({}),
        json!({"city": "Bergen"}),
        json!({"city": 5}),
        json!({"city": null}),
        with("temperatureUnit", json!("degrees-fahrenheit")),
        with("temperatureUnit", json!("kelvin")),
        with("temperatureUnit", json!(null)),
        with("temperature_unit", json!("kelvin")),
        with("daysAhead", json!(null)),
        with("daysAhead", json!(255)),
        with("daysAhead", json!(256)),
        with("daysAhead", json!(-1)),
        with("daysAhead", json!(1.5)),
        with("decimals", json!(0)),
        with("decimals", json!(4_294_967_296_u64)),
        with("decimals", json!(4_294_967_295_u64)),
        with("decimals", json!([])),
        with("offset", json!(i32::MIN)),
        with("offset", json!(2_147_483_648_u64)),
        with("place", json!(null)),
        with("place", json!({"latitude": 60, "longitude": 5.3})),
        with("place", json!({"latitude": 60})),
        with(
            "place",
            json!({"latitude": 6, "longitude": 5, "type": "COAST"}),
        ),
        with(
            "place",
            json!({"latitude": 6, "longitude": 5, "type": "SEA"}),
        ),
        with(
            "place",
            json!({"latitude": 6, "longitude": 5, "more": true}),
        ),
        with("stations", json!([])),
        with(
            "stations",
            json!([{"kind": "airport", "code": "BGO"}, garden]),
        ),
        with("stations", json!([{"kind": "airport"}])),
        with("stations", json!([{"kind": "ship", "code": "BGO"}])),
        with("stations", json!([{"code": "BGO"}])),
        with("labels", json!({"a": 1, "b": 2.5})),
        with("labels", json!({"a": "x"})),
        with("nonsense", json!(1)),
    ];
    let (mut accepted, mut refused) = (0, 0);
    for arguments in samples {
        let is_typed = serde_json::from_value::<WeatherArguments>(arguments.clone()).is_ok();
        assert_eq!(validator.accepts(&arguments), is_typed, "{arguments}");
        let executed = run(&manager, "get_weather", arguments.clone()).await;
        if is_typed {
            assert!(executed.result.is_success(), "{arguments}");
            accepted += 1;
        } else {
            refused += 1;
        }
    }
    assert!(accepted > 8 && refused > 8, "{accepted} {refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_of_a_typed_tool_are_normalised_first() {
    let manager = manager(typed::<WeatherArguments>("get_weather"));
    for (sent, name, read) in [
        (
            json!({"city": "Bergen", "daysAhead": "3"}),
            "daysAhead",
            json!(3),
        ),
        (
            json!({"city": "Bergen", "days_ahead": 3}),
            "daysAhead",
            json!(3),
        ),
        (
            json!({"city": "Bergen", "temperatureUnit": "Degrees-Celsius"}),
            "temperatureUnit",
            json!("degrees-celsius"),
        ),
        // JSON Schema takes 3.0 for an integer.
        (
            json!({"city": "Bergen", "daysAhead": 3.0}),
            "daysAhead",
            json!(3),
        ),
        (json!({"city": "Bergen"}), "decimals", json!(2)),
    ] {
        let executed = run(&manager, "getWeather", sent.clone()).await;
        assert!(
            executed.result.is_success(),
            "{sent}: {}",
            executed.result.error()
        );
        assert_eq!(executed.result.fields["arguments"][name], read, "{sent}");
    }
    let refused = run(
        &manager,
        "get_weather",
        json!({"city": "Bergen", "days": 1.5}),
    )
    .await;
    assert!(
        refused.result.error().contains("days"),
        "{}",
        refused.result.error()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn type_that_contains_itself_is_validated() {
    let manager = manager(typed::<Folder>("make_folders"));
    let deep = json!({"name": "a", "folders": [{"name": "b", "folders": [{"name": "c"}]}]});
    assert!(
        run(&manager, "make_folders", deep)
            .await
            .result
            .is_success()
    );
    let wrong = json!({"name": "a", "folders": [{"name": "b", "folders": [{"nam": 1}]}]});
    let refused = run(&manager, "make_folders", wrong).await;
    assert!(!refused.result.is_success());
}

#[tokio::test(flavor = "multi_thread")]
async fn value_that_only_the_type_refuses_names_its_property() {
    let ping = FunctionTool::typed::<PingArguments, _, _>(
        "ping",
        "Pings hosts",
        |arguments: PingArguments, _context: Context| async move {
            ToolResult::success().field("hosts", arguments.target.addresses.len())
        },
    );
    let manager = manager(ping);
    let good = json!({"target": {"addresses": ["192.0.2.1", "2001:db8::1"]}});
    let executed = run(&manager, "ping", good).await;
    assert_eq!(executed.result.fields["hosts"], 2);
    let bad = json!({"target": {"addresses": ["192.0.2.1", "nowhere"]}});
    let executed = run(&manager, "ping", bad).await;
    let failure = executed.result.failure.as_ref().expect("it is no address");
    assert_eq!(failure.error_type, ErrorType::Validation);
    assert!(
        failure
            .error
            .contains("): /target/addresses/1: invalid IP address"),
        "{}",
        failure.error
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn definition_of_a_typed_tool_can_be_configured() {
    let wipe = FunctionTool::typed::<Folder, _, _>("wipe", "Empties a folder", |folder, _| async {
        ToolResult::success().field("name", folder.name)
    });
    let wipe = wipe.configure(|tool: &mut Tool| {
        tool.safe = Some(false);
        tool.title = Some("Empty".to_owned());
    });
    assert!(wipe.requires_confirmation());
    assert_eq!(wipe.definition().title.as_deref(), Some("Empty"));
    let access = Access {
        allow_unsafe: true,
        ..Access::default()
    };
    let builder = ToolManager::builder(access).tool(wipe);
    let manager = builder.build().expect("it is valid");
    let executed = run(&manager, "wipe", json!({"name": "tmp"})).await;
    assert!(
        executed.result.error().contains("not confirmed"),
        "{}",
        executed.result.error()
    );
}
