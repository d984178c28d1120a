//! Commands that take several names: each is asked for, what was done is shown, and then what failed is told.

use std::fmt;

use anyhow::{Error, Result};
use riparian_client::ClientError;

use crate::output::explain;

/// What became of the names.
pub(crate) struct Several<T> {
    /// The answers, in the order of the names.
    pub(crate) done: Vec<T>,
    /// Why the others have none.
    pub(crate) failures: Failures,
}

/// Asks about each name. One that is refused does not stop the others, a server that is gone does.
pub(crate) fn ask_for_each<T>(names: &[String], mut ask: impl FnMut(&str) -> Result<T>) -> Several<T> {
    let mut several = Several { done: Vec::new(), failures: Failures::default() };
    for name in names {
        match ask(name) {
            Ok(answer) => several.done.push(answer),
            Err(error) => {
                several.failures.0.push(error);
                if several.failures.is_server_lost() {
                    break;
                }
            }
        }
    }
    several
}

/// What failed, a line each.
#[derive(Debug, Default)]
pub(crate) struct Failures(Vec<Error>);

impl Failures {
    /// Whether the last one was of the connection, not of what was asked.
    pub(crate) fn is_server_lost(&self) -> bool {
        let of_connection = |cause: &(dyn std::error::Error + 'static)| {
            cause.downcast_ref::<ClientError>().is_some_and(|error| !matches!(error, ClientError::Server(_)))
        };
        self.0.last().is_some_and(|error| error.chain().any(of_connection))
    }

    /// An error if there is any.
    pub(crate) fn into_result(self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(self.into()) }
    }

    /// Whether nothing failed.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().map(|error| explain(error).replace('\n', "\\n")).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Failures {}

#[cfg(test)]
mod tests {
    use anyhow::{Context, bail};

    use super::*;

    fn names() -> Vec<String> {
        ["a", "b", "c"].map(str::to_owned).to_vec()
    }

    #[test]
    fn a_name_that_is_refused_does_not_stop_the_others() {
        let several =
            ask_for_each(&names(), |name| if name == "b" { bail!("b is refused") } else { Ok(name.to_owned()) });
        assert_eq!(several.done, ["a", "c"]);
        assert!(!several.failures.is_server_lost());
        assert_eq!(several.failures.into_result().unwrap_err().to_string(), "b is refused");
    }

    #[test]
    fn a_server_that_is_gone_stops_all() {
        let mut asked = 0;
        let several = ask_for_each(&names(), |name| {
            asked += 1;
            let lost = ClientError::Unreachable { attempts: vec!["refused".to_owned()] };
            Err::<(), _>(lost).with_context(|| format!("{name} was not deleted"))
        });
        assert_eq!(asked, 1);
        assert!(several.done.is_empty() && several.failures.is_server_lost());
        assert_eq!(several.failures.to_string(), "a was not deleted: no server can be reached: refused");
    }
}
