//! Which tools each of many names means, in flat arrays.

use std::borrow::Cow;
use std::ops::Range;

use super::{Resolved, ResolvedVia};
use crate::ranking::ToolId;
use crate::saved::{SavedError, SavedFile, Texts, Writer};

/// Names, each with the tools that it means.
#[derive(Debug)]
pub(super) struct Owners {
    names: Texts,
    /// Where the owners of each name end; they begin where those of the name before end.
    ends: Vec<u32>,
    owners: Vec<Resolved>,
}

/// The bit that is set for what is deprecated, below the number of the way.
const DEPRECATED: u8 = 1;
/// The ways in which names lead to tools, by the number that stands for each in a file.
const WAYS: [ResolvedVia; 3] = [
    ResolvedVia::Name,
    ResolvedVia::Alias,
    ResolvedVia::Normalised,
];

impl Owners {
    /// Gathers what each name means; `settle` says which of all that was given it is.
    pub(super) fn new<T: Send + Sync>(
        names: Vec<(Cow<'_, str>, T)>,
        settle: impl Fn(&mut dyn Iterator<Item = T>, &mut Vec<Resolved>),
    ) -> Self {
        let (mut ends, mut owners, mut own) =
            (Vec::new(), Vec::with_capacity(names.len()), Vec::new());
        let names = Texts::gathered(names, |given| {
            settle(given, &mut own);
            owners.append(&mut own);
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

    /// Returns what a name means.
    pub(super) fn of(&self, name: &str) -> Option<&[Resolved]> {
        self.names
            .find(name)
            .map(|place| &self.owners[self.range(place)])
    }

    /// Returns all names, each with what it means.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &[Resolved])> {
        self.names
            .iter()
            .enumerate()
            .map(|(place, name)| (name, &self.owners[self.range(place)]))
    }

    /// Returns how many bytes they take.
    pub(super) fn memory(&self) -> usize {
        self.names.memory() + size_of_val(&*self.ends) + size_of_val(&*self.owners)
    }

    fn range(&self, place: usize) -> Range<usize> {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[place] as usize
    }

    pub(super) fn save(&self, name: &str, writer: &mut Writer) -> Result<(), SavedError> {
        let way = |via| WAYS.iter().position(|&way| way == via).unwrap_or_default();
        let flags = |owner: &Resolved| {
            (u8::from(owner.deprecated) * DEPRECATED)
                | u8::try_from(way(owner.via) << 1).unwrap_or_default()
        };
        self.names.save(name, writer)?;
        writer.numbers(&format!("{name}.owner-ends"), &self.ends)?;
        let tools: Vec<u32> = self.owners.iter().map(|owner| owner.tool.0).collect();
        writer.numbers(&format!("{name}.owners"), &tools)?;
        writer.numbers(
            &format!("{name}.flags"),
            &self.owners.iter().map(flags).collect::<Vec<u8>>(),
        )
    }

    pub(super) fn open(name: &str, file: &SavedFile) -> Result<Self, SavedError> {
        let names = Texts::open(name, file)?;
        let ends: Vec<u32> = file.numbers(&format!("{name}.owner-ends"))?;
        let tools: Vec<u32> = file.numbers(&format!("{name}.owners"))?;
        let flags: Vec<u8> = file.numbers(&format!("{name}.flags"))?;
        let sound = ends.len() == names.len()
            && ends.is_sorted()
            && ends.last().copied().unwrap_or_default() as usize == tools.len()
            && flags.len() == tools.len()
            && tools
                .iter()
                .all(|&tool| (tool as usize) < file.header.tools)
            && flags
                .iter()
                .all(|&flags| usize::from(flags >> 1) < WAYS.len());
        file.ensure(sound, name)?;
        let owner = |(tool, flags): (u32, u8)| Resolved {
            tool: ToolId(tool),
            via: WAYS[usize::from(flags >> 1)],
            deprecated: flags & DEPRECATED != 0,
        };
        Ok(Self {
            names,
            ends,
            owners: tools.into_iter().zip(flags).map(owner).collect(),
        })
    }
}
