//! A table of names with the tools that have each name, in flat arrays.

use std::borrow::Cow;
use std::ops::Range;

use super::resolution::{ResolvedTool, ResolvedVia};
use crate::ranking::ToolId;
use crate::saved::{SavedError, SavedFile, TextTable, Writer};

/// A table of names, each with the tools that have it.
#[derive(Debug)]
pub(super) struct Owners {
    names: TextTable,
    /// The end of each name's owners. They begin at the end of the previous name's owners.
    ends: Vec<u32>,
    owners: Vec<ResolvedTool>,
}

/// The flag bit of deprecated aliases. The bits above it are an index of [`KINDS`].
const DEPRECATED: u8 = 1;
/// The kinds of names, by their number in a file.
const KINDS: [ResolvedVia; 3] = [
    ResolvedVia::Name,
    ResolvedVia::Alias,
    ResolvedVia::Normalised,
];

impl Owners {
    /// Groups the claims to each name. `settle` selects the owners of a name from its claims.
    pub(super) fn new<T: Send + Sync>(
        names: Vec<(Cow<'_, str>, T)>,
        settle: impl Fn(&mut dyn Iterator<Item = T>, &mut Vec<ResolvedTool>),
    ) -> Self {
        let mut ends = Vec::new();
        let mut owners = Vec::with_capacity(names.len());
        let mut owners_of_name = Vec::new();
        let names = TextTable::group(names, |claims| {
            settle(claims, &mut owners_of_name);
            owners.append(&mut owners_of_name);
            ends.push(u32::try_from(owners.len()).expect("a catalog holds fewer than 2^32 names"));
        });
        ends.shrink_to_fit();
        owners.shrink_to_fit();
        Self {
            names,
            ends,
            owners,
        }
    }

    /// Returns the tools that have a name.
    pub(super) fn get(&self, name: &str) -> Option<&[ResolvedTool]> {
        let position = self.names.find(name)?;
        Some(&self.owners[self.range(position)])
    }

    /// Returns all names, each with the tools that have it.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &[ResolvedTool])> {
        self.names
            .iter()
            .enumerate()
            .map(|(position, name)| (name, &self.owners[self.range(position)]))
    }

    /// Returns the memory of the table, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.names.memory() + size_of_val(&*self.ends) + size_of_val(&*self.owners)
    }

    fn range(&self, position: usize) -> Range<usize> {
        let start = match position.checked_sub(1) {
            Some(previous) => self.ends[previous],
            None => 0,
        };
        start as usize..self.ends[position] as usize
    }

    pub(super) fn save(&self, name: &str, writer: &mut Writer) -> Result<(), SavedError> {
        let mut tools = Vec::with_capacity(self.owners.len());
        let mut flags = Vec::with_capacity(self.owners.len());
        for owner in &self.owners {
            tools.push(owner.tool.0);
            let kind = KINDS.iter().position(|&kind| kind == owner.via);
            let kind_bits = u8::try_from(kind.unwrap_or_default() << 1).unwrap_or_default();
            flags.push((u8::from(owner.deprecated) * DEPRECATED) | kind_bits);
        }
        self.names.save(name, writer)?;
        writer.numbers(&format!("{name}.owner-ends"), &self.ends)?;
        writer.numbers(&format!("{name}.owners"), &tools)?;
        writer.numbers(&format!("{name}.flags"), &flags)
    }

    pub(super) fn open(name: &str, file: &SavedFile) -> Result<Self, SavedError> {
        let names = TextTable::open(name, file)?;
        let ends: Vec<u32> = file.numbers(&format!("{name}.owner-ends"))?;
        let tools: Vec<u32> = file.numbers(&format!("{name}.owners"))?;
        let flags: Vec<u8> = file.numbers(&format!("{name}.flags"))?;
        let is_valid = ends.len() == names.len()
            && ends.is_sorted()
            && ends.last().copied().unwrap_or_default() as usize == tools.len()
            && flags.len() == tools.len()
            && tools
                .iter()
                .all(|&tool| (tool as usize) < file.header.tools)
            && flags
                .iter()
                .all(|&flags| usize::from(flags >> 1) < KINDS.len());
        file.ensure(is_valid, name)?;
        let mut owners = Vec::with_capacity(tools.len());
        for (tool, flags) in tools.into_iter().zip(flags) {
            owners.push(ResolvedTool {
                tool: ToolId(tool),
                via: KINDS[usize::from(flags >> 1)],
                deprecated: flags & DEPRECATED != 0,
            });
        }
        Ok(Self {
            names,
            ends,
            owners,
        })
    }
}
