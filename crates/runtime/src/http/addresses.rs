//! Which addresses are asked: a definition may be anybody's, and must not reach what only this
//! machine can.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::Stop;
use crate::ErrorType;
use picktools::excerpt::{MAX_NAME_CHARS, marked};

/// Azure's service for its machines has an address that looks public.
const AZURE: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// Which hosts may have addresses that are not public.
pub(super) struct Private {
    pub(super) all: bool,
    /// In lower case.
    pub(super) hosts: BTreeSet<String>,
}

impl Private {
    /// Checks a host that is an address itself, which no resolver is asked for.
    pub(super) fn permit_literal(&self, host: &str) -> Result<(), Stop> {
        match host.trim_matches(['[', ']']).parse() {
            Ok(address) => self
                .permit(host, &[address])
                .map_err(|refused| refused.stop()),
            Err(_) => Ok(()),
        }
    }

    fn permit(&self, host: &str, addresses: &[IpAddr]) -> Result<(), Refused> {
        let bare = host
            .trim_matches(['[', ']'])
            .trim_end_matches('.')
            .to_lowercase();
        let refused = |address: &IpAddr| Refused {
            host: bare.clone(),
            address: *address,
        };
        if bare == "localhost"
            && let Some(other) = addresses.iter().find(|address| !address.is_loopback())
        {
            return Err(refused(other));
        }
        if self.all || self.hosts.contains(&bare) {
            return Ok(());
        }
        match addresses.iter().find(|address| !is_public(**address)) {
            Some(address) => Err(refused(address)),
            None => Ok(()),
        }
    }
}

/// A host that must not be asked.
#[derive(Debug)]
pub(super) struct Refused {
    host: String,
    address: IpAddr,
}

impl Refused {
    pub(super) fn stop(&self) -> Stop {
        let suggestion = "Whoever runs this program may allow the host by name.";
        Stop::new(ErrorType::Security, self.to_string()).suggest(suggestion)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, address } = self;
        let host = marked(host, MAX_NAME_CHARS);
        write!(
            f,
            "{host} is at {address}, which is no public address, and was not asked"
        )
    }
}

impl std::error::Error for Refused {}

/// Looks names up, once for each connection: what is checked here is what is connected to.
pub(super) struct Resolver(pub(super) Arc<Private>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let private = Arc::clone(&self.0);
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let addresses: Vec<IpAddr> = found.iter().map(std::net::SocketAddr::ip).collect();
            private.permit(name.as_str(), &addresses)?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// After IANA's registry of special-purpose addresses.
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
        // Teredo, benchmarks and documentation; of the rest what is given out to the public.
        [0x2001, 0 | 2 | 0xdb8, ..] | [0x3fff, ..] => false,
        [first, ..] => (0x2000..0x4000).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
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
    fn a_host_of_which_one_address_is_private_is_refused_unless_it_is_named() {
        let addresses: Vec<IpAddr> = ["1.1.1.1", "10.0.0.1"]
            .map(|text| text.parse().expect("an address"))
            .into();
        let private = |all, hosts: &[&str]| Private {
            all,
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        };
        let refused = private(false, &["other.example"]).permit("Rebinds.Example.", &addresses);
        assert!(refused.is_err_and(|refused| {
            refused
                .to_string()
                .starts_with("rebinds.example is at 10.0.0.1")
        }));
        assert!(
            private(false, &["rebinds.example"])
                .permit("Rebinds.Example.", &addresses)
                .is_ok()
        );
        assert!(
            private(true, &[])
                .permit("rebinds.example", &addresses)
                .is_ok()
        );
        // What runs without TLS because it is this machine is this machine.
        assert!(private(true, &[]).permit("localhost", &addresses).is_err());
    }
}
