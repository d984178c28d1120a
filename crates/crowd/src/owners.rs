//! Who has which active task, by what members were told and have not yet given back.
//!
//! **Invariant:** a task that is told to a member while another one still has it is noted as a violation; nothing is
//! forgotten.

const NOBODY: u32 = u32::MAX;

/// The tasks of one group, which has one subtopology: a task is its partition.
#[derive(Clone, Debug)]
pub struct Owners {
    owner: Vec<u32>,
    owned: usize,
}

impl Owners {
    pub fn new(tasks: usize) -> Self {
        Self { owner: vec![NOBODY; tasks], owned: 0 }
    }

    /// A member was told that it has a task. `Some` says what is wrong with that.
    pub fn told(&mut self, task: i32, member: usize) -> Option<String> {
        let found = usize::try_from(task).ok().and_then(|task| self.owner.get_mut(task));
        let Some(owner) = found else { return Some(format!("member {member} was told of task {task}, which is none")) };
        match *owner {
            NOBODY => {
                *owner = member as u32;
                self.owned += 1;
                None
            }
            other if other == member as u32 => None,
            other => Some(format!("task {task} was told to member {member} while member {other} had it")),
        }
    }

    /// A member has given a task back, or has died.
    pub fn given_back(&mut self, task: i32, member: usize) {
        let found = usize::try_from(task).ok().and_then(|task| self.owner.get_mut(task));
        if let Some(owner) = found.filter(|owner| **owner == member as u32) {
            *owner = NOBODY;
            self.owned -= 1;
        }
    }

    /// Who has this task.
    pub fn owner(&self, task: i32) -> Option<usize> {
        let owner = usize::try_from(task).ok().and_then(|task| self.owner.get(task))?;
        (*owner != NOBODY).then_some(*owner as usize)
    }

    pub fn all_owned(&self) -> bool {
        self.owned == self.owner.len()
    }

    pub fn owned(&self) -> usize {
        self.owned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_has_one_owner_at_a_time() {
        let mut owners = Owners::new(2);
        assert_eq!(owners.told(0, 7), None);
        assert_eq!(owners.told(0, 7), None);
        assert!(owners.told(0, 8).is_some_and(|text| text.contains("while member 7")));
        owners.given_back(0, 8);
        assert_eq!(owners.owned(), 1);
        owners.given_back(0, 7);
        assert_eq!(owners.told(0, 8), None);
        assert!(!owners.all_owned());
        assert_eq!(owners.told(1, 7), None);
        assert!(owners.all_owned());
        assert!(owners.told(2, 7).is_some());
    }
}
