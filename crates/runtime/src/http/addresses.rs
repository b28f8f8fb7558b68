//! The policy of allowed addresses. A definition may come from anywhere, so it must not reach hosts
//! that only this machine can reach.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::error::HttpCallError;
use crate::ErrorType;
use picktools::excerpt::{MAX_NAME_CHARS, marked};

/// The address of Azure's internal service, which looks like a public address.
const AZURE: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// The hosts that may have addresses that are not public.
pub(super) struct AddressPolicy {
    pub(super) allow_all: bool,
    /// The allowed hosts in lower case.
    pub(super) hosts: BTreeSet<String>,
}

impl AddressPolicy {
    /// Checks a host that is an IP address, which is never resolved.
    pub(super) fn check_literal(&self, host: &str) -> Result<(), HttpCallError> {
        match host.trim_matches(['[', ']']).parse() {
            Ok(address) => self
                .check(host, &[address])
                .map_err(|blocked| blocked.to_call_error()),
            Err(_) => Ok(()),
        }
    }

    fn check(&self, host: &str, addresses: &[IpAddr]) -> Result<(), BlockedAddress> {
        let host_name = host
            .trim_matches(['[', ']'])
            .trim_end_matches('.')
            .to_lowercase();
        let blocked = |address: &IpAddr| BlockedAddress {
            host: host_name.clone(),
            address: *address,
        };
        if host_name == "localhost"
            && let Some(other) = addresses.iter().find(|address| !address.is_loopback())
        {
            return Err(blocked(other));
        }
        if self.allow_all || self.hosts.contains(&host_name) {
            return Ok(());
        }
        match addresses.iter().find(|address| !is_public(**address)) {
            Some(address) => Err(blocked(address)),
            None => Ok(()),
        }
    }
}

/// An error from a host with an address that is not allowed.
#[derive(Debug)]
pub(super) struct BlockedAddress {
    host: String,
    address: IpAddr,
}

impl BlockedAddress {
    pub(super) fn to_call_error(&self) -> HttpCallError {
        let suggestion = "Ask the operator to allow the host by name.";
        HttpCallError::new(ErrorType::Security, self.to_string()).suggest(suggestion)
    }
}

impl fmt::Display for BlockedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, address } = self;
        let host = marked(host, MAX_NAME_CHARS);
        write!(
            f,
            "{host} has the address {address}, which is not a public address; \
             the request was not sent"
        )
    }
}

impl std::error::Error for BlockedAddress {}

/// A resolver that checks the addresses of a host. It resolves once per connection, so the
/// connection uses the addresses that were checked.
pub(super) struct CheckedResolver(pub(super) Arc<AddressPolicy>);

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = Arc::clone(&self.0);
        Box::pin(async move {
            let resolved: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let addresses: Vec<IpAddr> = resolved.iter().map(std::net::SocketAddr::ip).collect();
            policy.check(name.as_str(), &addresses)?;
            Ok(Box::new(resolved.into_iter()) as Addrs)
        })
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Returns `true` for a public address, by IANA's registry of special-purpose addresses.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = match (a, b, c) {
        (0 | 10 | 127, ..) | (169, 254, _) | (192, 168, _) | (224.., ..) => true,
        (100, 64..=127, _) | (172, 16..=31, _) | (198, 18..=19, _) => true,
        (192, 0, 0 | 2) | (192, 88, 99) | (198, 51, 100) | (203, 0, 113) => true,
        _ => address == AZURE,
    };
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            embedded(high, low)
        }
        [0x2002, high, low, ..] => embedded(high, low),
        // Teredo, benchmarks and documentation. Of the rest, only global unicast is public.
        [0x2001, 0 | 2 | 0xdb8, ..] | [0x3fff, ..] => false,
        [first, ..] => (0x2000..0x4000).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_purpose_addresses_are_not_public() {
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.0.3",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.168.1.1",
            "198.19.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "ff02::1",
        ] {
            assert!(
                !is_public(address.parse().expect("an address")),
                "{address}"
            );
        }
        for address in [
            "1.1.1.1",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
        ] {
            assert!(is_public(address.parse().expect("an address")), "{address}");
        }
    }

    #[test]
    fn host_with_a_private_address_is_blocked_unless_allowed() {
        let addresses: Vec<IpAddr> = ["1.1.1.1", "10.0.0.1"]
            .map(|text| text.parse().expect("an address"))
            .into();
        let policy = |allow_all, hosts: &[&str]| AddressPolicy {
            allow_all,
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        };
        let result = policy(false, &["other.example"]).check("Rebinds.Example.", &addresses);
        assert!(result.is_err_and(|blocked| {
            blocked
                .to_string()
                .starts_with("rebinds.example has the address 10.0.0.1")
        }));
        assert!(
            policy(false, &["rebinds.example"])
                .check("Rebinds.Example.", &addresses)
                .is_ok()
        );
        assert!(
            policy(true, &[])
                .check("rebinds.example", &addresses)
                .is_ok()
        );
        // `localhost` may go without TLS, so it must resolve to this machine.
        assert!(policy(true, &[]).check("localhost", &addresses).is_err());
    }
}
