//! What holds for every stored record in every version.

use riparian_wire::Reader;

#[path = "../../protocol/tests/support/luck.rs"]
mod luck;
#[path = "../../protocol/tests/support/memory.rs"]
mod memory;
#[path = "../../protocol/tests/support/properties.rs"]
mod support;
mod generated {
    pub(crate) mod arbitrary;
}

use generated::arbitrary::{self, each_message};

support::properties!(riparian_records::stored);
