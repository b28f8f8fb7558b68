//! The check of all lengths in an ONNX file, before rten parses it.
//!
//! ONNX is a protocol-buffers message: nested messages, strings and arrays, each after its length.
//! rten allocates memory for a length without a check. One flipped bit could request a terabyte and
//! end the process. So every length that rten reads is compared with the size of the content.
//! Recursive messages (graphs in graphs, sequences of sequences) are refused; the tuned model has
//! none.
//!
//! The encoding is <https://protobuf.dev/programming-guides/encoding/>. The field numbers are those
//! of `onnx.proto3`.

/// The type of a part of the file.
#[derive(Clone, Copy)]
enum PartType {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    Value,
    Type,
    TensorType,
    Shape,
    /// A message without nested messages.
    Flat,
    /// Text, numbers, or a field that rten ignores.
    Leaf,
    /// A message that may nest recursively.
    Recursive,
}

impl PartType {
    /// Returns the type of the field with this number.
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
            (Self::Attribute, 6 | 11) | (Self::Type, 4) => Self::Recursive,
            _ => Self::Leaf,
        }
    }
}

/// Returns `true` if every length in the file is within its content.
///
/// # Complexity
///
/// Linear in the number of messages. Weights are not read.
pub(super) fn is_intact(file: &[u8]) -> bool {
    check_lengths(PartType::Model, file).is_some()
}

/// Checks the lengths in a part. Returns `None` if one is wrong, or if the part is recursive.
fn check_lengths(part: PartType, mut rest: &[u8]) -> Option<()> {
    match part {
        PartType::Leaf => return Some(()),
        PartType::Recursive => return None,
        _ => {}
    }
    while !rest.is_empty() {
        let tag = read_varint(&mut rest)?;
        let length = match tag & 7 {
            0 => {
                read_varint(&mut rest)?;
                continue;
            }
            1 => 8,
            2 => usize::try_from(read_varint(&mut rest)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let (content, after) = rest.split_at_checked(length)?;
        if tag & 7 == 2 {
            check_lengths(part.field(tag >> 3), content)?;
        }
        rest = after;
    }
    Some(())
}

/// Reads a number with seven bits per byte, lowest bits first, and removes it from the front.
fn read_varint(rest: &mut &[u8]) -> Option<u64> {
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

    /// Returns a field with its length.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).expect("it is short");
        assert!(length < 0x80);
        [&[number << 3 | 2, length], content].concat()
    }

    #[test]
    fn length_beyond_its_content_is_refused_at_every_depth() {
        let raw = field(9, b"weights");
        let model = [
            &[8, 9][..],
            &field(7, &field(5, &raw)),
            &field(14, &field(1, b"key")),
        ]
        .concat();
        assert!(is_intact(&model) && is_intact(&[]));
        for cut in 1..model.len() {
            // A file may only end between two fields of the model itself.
            assert_eq!(
                is_intact(&model[..cut]),
                cut == 2 || cut == 2 + 2 + 2 + raw.len(),
                "{cut}"
            );
        }
        let length_position = model
            .iter()
            .position(|&byte| byte == 7)
            .expect("it is there");
        for wrong in [8, 0x7f, 0xff] {
            let mut model = model.clone();
            model[length_position] = wrong;
            assert!(!is_intact(&model), "{wrong}");
        }
    }

    #[test]
    fn recursive_messages_are_refused() {
        let subgraph = field(7, &field(1, &field(5, &field(6, b""))));
        let sequence = field(7, &field(11, &field(2, &field(4, b""))));
        assert!(!is_intact(&subgraph) && !is_intact(&sequence));
        assert!(!is_intact(&[0xff; 32]) && !is_intact(b"not a model") && !is_intact(&[3 << 3 | 3]));
    }
}
