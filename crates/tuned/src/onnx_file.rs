//! A first look at an ONNX file, before its parser takes it at its word.
//!
//! ONNX is a protocol-buffers message: nested messages, strings and arrays, each with its length
//! before it. rten sets memory aside for a length as it is told, so one flipped bit could ask for a
//! terabyte and end the process. Here every length that rten reads is held against what is there.
//! What may nest without end (graphs inside graphs, sequences of sequences) is refused: no model of
//! ours has any.
//!
//! The encoding is <https://protobuf.dev/programming-guides/encoding/>, the numbers of the fields
//! are `onnx.proto3`'s.

/// What a stretch of the file holds.
#[derive(Clone, Copy)]
enum Part {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    Value,
    Type,
    TensorType,
    Shape,
    /// A message without messages.
    Flat,
    /// Text or numbers, or something that rten passes over.
    Leaf,
    /// What may nest without end.
    Nest,
}

impl Part {
    /// Returns what the field of this number holds.
    fn field(self, number: u64) -> Self {
        match (self, number) {
            (Self::Model, 7) => Self::Graph,
            (Self::Model, 8 | 14) | (Self::Tensor, 13) | (Self::Shape, 1) => Self::Flat,
            (Self::Graph, 1) => Self::Node,
            (Self::Graph, 5) | (Self::Attribute, 5 | 10) => Self::Tensor,
            (Self::Graph, 11..=13) => Self::Value,
            (Self::Node, 5) => Self::Attribute,
            (Self::Value, 2) => Self::Type,
            (Self::Type, 1) => Self::TensorType,
            (Self::TensorType, 2) => Self::Shape,
            (Self::Attribute, 6 | 11) | (Self::Type, 4) => Self::Nest,
            _ => Self::Leaf,
        }
    }
}

/// Returns `true` if all lengths in the file fit.
///
/// # Complexity
///
/// Reads no weights, so the number of messages counts, not the size of the file.
pub(super) fn is_whole(file: &[u8]) -> bool {
    fits(Part::Model, file).is_some()
}

fn fits(part: Part, mut rest: &[u8]) -> Option<()> {
    match part {
        Part::Leaf => return Some(()),
        Part::Nest => return None,
        _ => {}
    }
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let length = match tag & 7 {
            0 => {
                varint(&mut rest)?;
                continue;
            }
            1 => 8,
            2 => usize::try_from(varint(&mut rest)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let (content, after) = rest.split_at_checked(length)?;
        if tag & 7 == 2 {
            fits(part.field(tag >> 3), content)?;
        }
        rest = after;
    }
    Some(())
}

/// Takes a number of seven bits a byte, lowest first, off the front.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *rest.split_off_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of some length.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).expect("it is short");
        assert!(length < 0x80);
        [&[number << 3 | 2, length], content].concat()
    }

    #[test]
    fn every_length_must_fit_at_every_depth() {
        let raw = field(9, b"weights");
        let model = [
            &[8, 9][..],
            &field(7, &field(5, &raw)),
            &field(14, &field(1, b"key")),
        ]
        .concat();
        assert!(is_whole(&model) && is_whole(&[]));
        for cut in 1..model.len() {
            // A file may end between two fields of the model itself, and nowhere else.
            assert_eq!(
                is_whole(&model[..cut]),
                cut == 2 || cut == 2 + 2 + 2 + raw.len(),
                "{cut}"
            );
        }
        let length_of_raw = model
            .iter()
            .position(|&byte| byte == 7)
            .expect("it is there");
        for wrong in [8, 0x7f, 0xff] {
            let mut model = model.clone();
            model[length_of_raw] = wrong;
            assert!(!is_whole(&model), "{wrong}");
        }
    }

    #[test]
    fn what_nests_without_end_is_refused() {
        let subgraph = field(7, &field(1, &field(5, &field(6, b""))));
        let sequence = field(7, &field(11, &field(2, &field(4, b""))));
        assert!(!is_whole(&subgraph) && !is_whole(&sequence));
        assert!(!is_whole(&[0xff; 32]) && !is_whole(b"not a model") && !is_whole(&[3 << 3 | 3]));
    }
}
