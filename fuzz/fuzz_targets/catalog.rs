//! Arbitrary bytes as a catalog, and as an alias file of the operator.

#![no_main]

use libfuzzer_sys::fuzz_target;
use picktools::catalog::{Conflicts, OperatorAliases};
use picktools::names::NameTable;
use picktools::{Catalog, CatalogOptions};

fuzz_target!(|bytes: &[u8]| {
    let _strict = Catalog::from_slice(bytes, "fuzz", Some("source"));
    let aliases =
        OperatorAliases::from_slice(bytes, "fuzz").unwrap_or_else(|_| OperatorAliases::ecosystem());
    let options = CatalogOptions {
        conflicts: Conflicts::Warn,
        untrusted_sources: ["evil".to_owned()].into(),
        aliases: Some(aliases),
        ..CatalogOptions::default()
    };
    if let Ok(catalog) = options.read(bytes, "fuzz") {
        let table = NameTable::new(&catalog).expect("readable");
        for tool in catalog.tools().expect("readable") {
            let _meaning = table.resolve(&tool.name, &catalog).expect("readable");
        }
    }
});
