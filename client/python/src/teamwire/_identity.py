"""Who calls, where the coordinator is, whom to trust there: from the program, the environment, or the context file."""

from __future__ import annotations

import ipaddress
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ADDRESS_DEFAULT = "http://127.0.0.1:7420"
"""Where a coordinator is, unless something else is said: the one on this machine."""

_ADDRESSES_MAX = 16
_JOIN_STRING_CHARS_MAX = 8 * 1024
_ADDRESS = re.compile(r"(?:(https?)://)?(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]{1,253}))(?::([0-9]{1,5}))?/?", re.I | re.A)
_FINGERPRINT = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.I)
_CREDENTIAL = re.compile(r"[!-~]{1,512}")


@dataclass(frozen=True)
class Tls:
    """Whom a client trusts, and what it shows of itself. Each part is PEM or the path of a file; empty: not set."""

    ca: str = field(default="", repr=False)
    """The only authorities to trust. Empty: by the fingerprint, or else those of the system."""
    cert: str = field(default="", repr=False)
    """The client's certificate, with those between it and its authority. Goes with `key`."""
    key: str = field(default="", repr=False)
    fingerprint: str = ""
    """Without a `ca`: the SHA-256 of the certificate in the coordinator's chain that is the only authority to trust."""

    def __post_init__(self) -> None:
        if bool(self.cert) != bool(self.key):
            raise ValueError("A client certificate needs its key. Give both, TEAMWIRE_CERT and TEAMWIRE_KEY.")
        if self.fingerprint and not _FINGERPRINT.fullmatch(self.fingerprint):
            raise ValueError("A fingerprint is `sha256:` and 64 hexadecimal digits.")

    @property
    def digest(self) -> bytes:
        """The bytes of the fingerprint."""
        return bytes.fromhex(self.fingerprint[-64:])

    def over(self, other: Tls) -> Tls:
        """What this sets, and for the rest what the other does. A certificate and its key stay together."""
        trust, shown = (self if self.ca or self.fingerprint else other), (self if self.cert else other)
        return Tls(trust.ca, shown.cert, shown.key, trust.fingerprint)


@dataclass(frozen=True)
class Address:
    """Where one coordinator is."""

    is_tls: bool
    host: str
    port: int

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.authority}"


@dataclass(frozen=True)
class Identity:
    """Where the coordinator is and who calls. Its repr leaves secrets out."""

    addresses: tuple[Address, ...]
    credential: str = field(repr=False)
    team: str = ""
    """Goes into every request that leaves the team open. Only an operator needs it."""
    tls: Tls = Tls()

    def __post_init__(self) -> None:
        # gRPC would show it in its own error.
        if not _CREDENTIAL.fullmatch(self.credential):
            raise ValueError("The credential has characters that no credential has, or none. Use it as it was given.")

    @property
    def member(self) -> str:
        """The member that the credential names in clear. Empty: it is no member's."""
        kind, _, names = self.credential.partition(":")
        return names.split(":")[1] if kind == "twm" and names.count(":") == 2 else ""

    @property
    def address(self) -> str:
        """All addresses as one text, with commas between them."""
        return ",".join(map(str, self.addresses))


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Reads 1 to 16 addresses with commas between them: all with TLS, or all without.

    Raises ValueError, which does not repeat the text: it may be a join string by mistake.
    """
    if text.count(",") >= _ADDRESSES_MAX:
        raise ValueError(f"More than {_ADDRESSES_MAX} addresses are listed.")
    addresses = tuple(_parse_address(part.strip()) for part in text.split(","))
    if len({address.is_tls for address in addresses}) > 1:
        raise ValueError("The addresses mix http and https.")
    return addresses


def _parse_address(text: str) -> Address:
    malformed = ValueError("An address is malformed. Write https://HOST:PORT or http://HOST:PORT.")
    match = _ADDRESS.fullmatch(text)
    if not match:
        raise malformed
    scheme, ipv6, host, port = match.groups()
    is_tls = (scheme or "http").lower() == "https"
    try:
        host = str(ipaddress.IPv6Address(ipv6)) if ipv6 else host.lower()
    except ValueError:
        raise malformed from None
    number = int(port) if port else 443 if is_tls else 80
    if not 1 <= number <= 65535:
        raise ValueError("The port of an address must be 1 to 65535.")
    return Address(is_tls, host, number)


def from_environment(
    address: str = "",
    credential: str = "",
    team: str = "",
    tls: Tls | None = None,
    variables: Mapping[str, str] = os.environ,
) -> Identity:
    """Finds out who calls and where: what is given here, then the environment, then the context file.

    Raises ValueError, which says what to set.
    """
    team = team or variables.get("TEAMWIRE_TEAM", "")
    credential = credential or variables.get("TEAMWIRE_CREDENTIAL", "")
    tls = (tls or Tls()).over(_tls_of(variables))
    address = address or variables.get("TEAMWIRE_ADDRESS", "")
    if not credential:
        kept = _choose(_context_path(variables), variables.get("TEAMWIRE_AS", ""), team)
        credential, address = _text(kept, "credential"), address or _text(kept, "address")
        parts = kept.get("tls") or {}
        tls = tls.over(Tls(*(_text(parts, part) for part in ("ca", "cert", "key", "fingerprint"))))
    return Identity(parse_addresses(address or ADDRESS_DEFAULT), credential, team, tls)


def from_join_string(text: str, tls: Tls | None = None, variables: Mapping[str, str] = os.environ) -> Identity:
    """Takes `TOKEN@ADDRESS[,ADDRESS...][+sha256:HEX]` apart. A bare token is for the address of the environment.

    What the string says goes before the environment, which may be that of another member. Raises ValueError, which does
    not repeat the string.
    """
    remedy = "Paste it as `teamwire invite` printed it, from its first to its last character."
    token, at, place = text.strip().partition("@")
    if len(text) > _JOIN_STRING_CHARS_MAX or not re.fullmatch(r"tw[jm]:[A-Za-z0-9._:-]+", token):
        raise ValueError(f"The join string does not begin with a join token, or is too long. {remedy}")
    if not at:
        return replace(from_environment("", token, "", tls, variables), team="")
    where, plus, fingerprint = place.partition("+")
    try:
        addresses = parse_addresses(where)
        pinned = Tls(fingerprint=fingerprint)
        if plus and not (fingerprint and addresses[0].is_tls):
            raise ValueError("A fingerprint is for https addresses only, and not empty.")
        return Identity(addresses, token, "", (tls or Tls()).over(pinned).over(_tls_of(variables)))
    except ValueError as error:
        raise ValueError(f"The join string is malformed: {error} {remedy}") from None


def _tls_of(variables: Mapping[str, str]) -> Tls:
    return Tls(*(variables.get(f"TEAMWIRE_{part}", "") for part in ("CA", "CERT", "KEY")))


def _text(parts: Mapping[str, Any], name: str) -> str:
    value = parts.get(name) or ""
    if not isinstance(value, str):
        raise ValueError(f"The context file is malformed: `{name}` is no text.")
    return value


def _context_path(variables: Mapping[str, str]) -> Path:
    if given := variables.get("TEAMWIRE_CONTEXT"):
        return Path(given)
    base = variables.get("XDG_CONFIG_HOME") or os.path.join(variables.get("HOME") or os.path.expanduser("~"), ".config")
    return Path(base, "teamwire", "context.json")


def _choose(path: Path, named: str, team: str) -> Mapping[str, Any]:
    """Chooses an identity of the context file: the one that is named, or is current, or is the only one. No guess."""
    try:
        file = json.loads(path.read_text("utf-8"))
        current, known = _text(file, "current"), list(file.get("identities") or [])
        names = [f"{_text(entry, 'member')}@{_text(entry, 'team')}" for entry in known]
    except FileNotFoundError:
        current, known, names = "", [], []
    except OSError as error:
        raise ValueError(f"The context file {path} cannot be read: {error.strerror}.") from None
    except (ValueError, AttributeError, KeyError, TypeError):
        raise ValueError(f"The context file {path} is malformed. Remove it, and join again.") from None

    def matching(wanted: str) -> list[Mapping[str, Any]]:
        """Returns those that `NAME`, `NAME@TEAM` or nothing mean, of the team that is chosen."""
        member, _, of = wanted.lower().partition("@")
        return [
            entry
            for entry in known
            if member in ("", _text(entry, "member").lower())
            and {of, team.lower()} <= {"", _text(entry, "team").lower()}
        ]

    found = matching(named) if named else matching(current) or matching("")
    if len(found) == 1:
        return found[0]
    raise ValueError(
        f"It is not clear who calls: {len(found)} identities of {path} match. Set TEAMWIRE_AS to one of "
        f"them, as NAME@TEAM (there are: {', '.join(names) or 'none'}), set TEAMWIRE_CREDENTIAL, or join with "
        "`teamwire join`."
    )
