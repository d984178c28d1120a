//! How many connections each address has, and may have.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// `max.connections.per.ip` and its overrides.
#[derive(Clone, Debug)]
pub(crate) struct AddressLimits {
    pub(crate) per_address: usize,
    pub(crate) overrides: BTreeMap<IpAddr, usize>,
}

impl AddressLimits {
    /// Reads `address:count,address:count`; says what is wrong with it, and what is allowed.
    pub(crate) fn parse_overrides(text: &str) -> Result<BTreeMap<IpAddr, usize>, String> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let parse = |entry: &str| {
            let (address, count) = entry.rsplit_once(':')?;
            let address = address.trim().trim_start_matches('[').trim_end_matches(']');
            Some((address.parse::<IpAddr>().ok()?.to_canonical(), count.trim().parse().ok()?))
        };
        entries
            .map(|entry| {
                parse(entry).ok_or_else(|| {
                    format!("{entry:?} is not an IP address, a colon and a number of connections; allowed: 192.0.2.7:10,[2001:db8::7]:10")
                })
            })
            .collect()
    }

    /// How many connections this address may have.
    pub(crate) fn of(&self, address: IpAddr) -> usize {
        self.overrides.get(&address).copied().unwrap_or(self.per_address)
    }
}

/// The connections of each address that has any.
#[derive(Debug, Default)]
pub(crate) struct Addresses(Mutex<HashMap<IpAddr, usize>>);

/// A connection's place among those of its address; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    addresses: Arc<Addresses>,
    address: IpAddr,
}

impl Addresses {
    /// Takes a place, if there is one.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr, max: usize) -> Option<Place> {
        let mut taken = self.lock();
        let count = taken.entry(address).or_insert(0);
        if *count >= max {
            // With a limit of none nothing is to be remembered of whoever tries.
            if *count == 0 {
                taken.remove(&address);
            }
            return None;
        }
        *count += 1;
        Some(Place { addresses: Arc::clone(self), address })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.addresses.lock();
        if let Some(count) = taken.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_read() {
        let overrides = AddressLimits::parse_overrides(" 127.0.0.1:5, [::1]:0,::2:7,").unwrap();
        let expected = [("127.0.0.1", 5), ("::1", 0), ("::2", 7)].map(|(address, max)| (address.parse().unwrap(), max));
        assert_eq!(overrides, expected.into());
        for wrong in ["localhost:5", "127.0.0.1", "127.0.0.1:-1", "127.0.0.1:many"] {
            assert!(AddressLimits::parse_overrides(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn places_are_taken_and_given_back() {
        let addresses = Arc::new(Addresses::default());
        let [one, other] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(IpAddr::from);
        let limits = AddressLimits { per_address: 2, overrides: [(other, 0)].into() };
        let take = |address| addresses.take(address, limits.of(address));
        let (first, _second) = (take(one), take(one));
        assert!(first.is_some() && take(one).is_none() && take(other).is_none());
        drop(first);
        assert!(take(one).is_some());
        assert_eq!(addresses.lock().len(), 1);
    }
}
