"""Which network addresses a tool may reach: public ones, in whatever way they are written."""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

NUMERIC = re.compile(r"(?:\d+|0x[0-9a-f]*)", re.IGNORECASE)
SPECIAL = (IPv4Network("192.0.0.0/24"), IPv4Network("192.88.99.0/24"))
"""Protocol assignments and old relays (RFC 6890, RFC 7526), of which some versions of Python call a part global."""

TRANSLATED = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
"""Addresses of a translator (RFC 6052, RFC 8215), behind which any IPv4 address may stand."""


def is_public(address: Address) -> bool:
    """Whether it is an address of the open internet, and hides no other one."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        tunnelled = address.sixtofour is not None or address.teredo is not None
        if tunnelled or address.scope_id or any(address in network for network in TRANSLATED):
            return False
        if address.is_site_local:
            return False
    elif any(address in network for network in SPECIAL):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def literal(host: str) -> Address | None:
    """The address that a host is, or None for a name. Raises ValueError for a number that is no plain address.

    `2130706433`, `0x7f.1` and `0177.0.0.1` are such: resolvers read them as addresses, each in its own way.
    """
    if ":" in host:
        return ip_address(host.strip("[]"))
    if NUMERIC.fullmatch(host.rstrip(".").rpartition(".")[2]):
        return IPv4Address(host)
    return None
