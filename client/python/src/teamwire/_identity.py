"""Who calls, where the coordinator is, whom to trust there: from the program, the environment, or the context file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from ipaddress import AddressValueError, IPv6Address
from pathlib import Path
from typing import Any

_ADDRESS = re.compile(r"(?:(https?)://)?(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]{1,253}))(?::([0-9]{1,5}))?/?", re.I | re.A)
_CREDENTIAL = re.compile(r"[!-~]{1,512}")
_FINGERPRINT = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.I)
_JOIN_STRING = re.compile(r"(tw[jm]:[\w.:-]+)(?:@([^@+]+)(?:\+(sha256:[0-9a-f]{64}))?)?", re.I | re.A)
_JOIN_STRING_CHARS_MAX = 8 * 1024


@dataclass(frozen=True)
class Tls:
    """Whom to trust, and what to show of oneself. All but the last are PEM or the path of a file. Empty: not set."""

    ca: str = field(default="", repr=False)
    """The only authorities to trust. Empty: by the fingerprint, or else those of the system."""
    cert: str = field(default="", repr=False)
    """The client's certificate, with those between it and its authority. Goes with `key`."""
    key: str = field(default="", repr=False)
    fingerprint: str = ""
    """Without a `ca`: the SHA-256 of the certificate in the coordinator's chain that is the only authority to trust."""


@dataclass(frozen=True)
class Identity:
    """Where the coordinator is and who calls. Raises ValueError, which shows no secret, as its repr does not."""

    address: str
    """1 to 16 with commas between them: all with TLS, or all without."""
    credential: str = field(repr=False)
    team: str = ""
    """Goes into every request that leaves the team open. Only an operator needs it."""
    tls: Tls = Tls()

    def __post_init__(self) -> None:
        # gRPC would show it in its own error.
        if not _CREDENTIAL.fullmatch(self.credential):
            raise ValueError("The credential has characters that no credential has, or none. Use it as it was given.")
        if bool(self.tls.cert) != bool(self.tls.key):
            raise ValueError("A client certificate needs its key: set both TEAMWIRE_CERT and TEAMWIRE_KEY.")
        if self.tls.fingerprint and not (_FINGERPRINT.fullmatch(self.tls.fingerprint) and self.targets[0][0]):
            raise ValueError("A fingerprint is `sha256:` and 64 hexadecimal digits, and goes with https.")
        if len({is_tls for is_tls, _, _ in self.targets}) > 1 or len(self.targets) > 16:
            raise ValueError("The addresses mix http and https, or are more than 16.")

    @property
    def targets(self) -> list[tuple[bool, str, int]]:
        """The addresses taken apart: whether with TLS, the host without brackets, the port."""
        return [_parse_address(text.strip()) for text in self.address.split(",", 17)]

    @property
    def member(self) -> str:
        """The member that the credential names in clear. Empty: it is no member's."""
        parts = self.credential.split(":")
        return parts[2] if parts[0] == "twm" and len(parts) == 4 else ""


def _parse_address(text: str) -> tuple[bool, str, int]:
    # The text is not repeated: it may be a join string by mistake.
    malformed = ValueError("An address is malformed. Write https://HOST:PORT or http://HOST:PORT.")
    if not (match := _ADDRESS.fullmatch(text)):
        raise malformed
    scheme, ipv6, host, port = match.groups()
    is_tls = (scheme or "").lower() == "https"
    try:
        host = str(IPv6Address(ipv6)) if ipv6 else host.lower()
    except AddressValueError:
        raise malformed from None
    if not 1 <= (number := int(port or (443 if is_tls else 80))) <= 65535:
        raise malformed
    return is_tls, host, number


def find(
    address: str = "",
    credential: str = "",
    team: str = "",
    tls: Tls | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Identity:
    """Finds out who calls and where: what is given here, then the environment, then the context file.

    Raises ValueError, which says what to set.
    """
    variables = {part: environment.get(f"TEAMWIRE_{part}", "") for part in ("ADDRESS", "CREDENTIAL", "TEAM", "AS")}
    team, credential = team or variables["TEAM"], credential or variables["CREDENTIAL"]
    kept: Any = {} if credential else _choose(_context_path(environment), variables["AS"], team)
    shown = {part: environment.get(f"TEAMWIRE_{part.upper()}") for part in ("ca", "cert", "key")}
    parts: dict[str, str] = {}
    for source in (kept.get("tls", {}), shown, asdict(tls or Tls())):
        trust = {"ca": "", "fingerprint": ""} if source.get("ca") or source.get("fingerprint") else {}
        parts |= trust | {name: str(source[name]) for name in source.keys() & asdict(Tls()) if source[name]}
    address = address or variables["ADDRESS"] or str(kept.get("address") or "http://127.0.0.1:7420")
    return Identity(address, credential or str(kept.get("credential")), team, Tls(**parts))


def joining(text: str, tls: Tls | None = None, environment: Mapping[str, str] = os.environ) -> Identity:
    """Takes `TOKEN@ADDRESS[,ADDRESS...][+sha256:HEX]` apart. A bare token is for the address of the environment.

    What the string says goes before the environment, which may be that of another member. Raises ValueError.
    """
    match = _JOIN_STRING.fullmatch(text.strip()) if len(text) <= _JOIN_STRING_CHARS_MAX else None
    if not match:
        raise ValueError("The join string is malformed. Paste all of it, as `teamwire invite` printed it.")
    token, address, fingerprint = match.groups("")
    tls = replace(tls or Tls(), fingerprint=fingerprint) if fingerprint else tls
    return find(address, token, "", tls, {**environment, "TEAMWIRE_TEAM": ""})


def _context_path(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME") or Path.home(), ".config")
    return Path(environment.get("TEAMWIRE_CONTEXT") or Path(base, "teamwire", "context.json"))


def _choose(path: Path, named: str, team: str) -> dict[str, Any]:
    """Chooses an identity of the context file: the one that is named, or is current, or is the only one. No guess."""
    try:
        file = json.loads(path.read_text("utf-8")) if path.exists() else {}
        known = {
            f"{entry['member']}@{entry['team']}": {**entry, "tls": dict(entry.get("tls") or {})}
            for entry in file.get("identities") or ()
        }
        current = str(file.get("current") or "")
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is malformed"
        raise ValueError(f"The context file {path} cannot be read: {why}.") from None

    def fits(who: str, wanted: str) -> bool:
        """Whether `NAME`, `NAME@TEAM` or nothing mean this one, and it is of the team that is chosen."""
        (member, _, its), (name, _, of) = who.lower().partition("@"), wanted.lower().partition("@")
        return name in ("", member) and {of, team.lower()} <= {"", its}

    found: list[str] = []
    for wanted in (named,) if named else (current, ""):
        found = found or [who for who in known if fits(who, wanted)]
    if len(found) != 1:
        raise ValueError(
            f"It is not clear who calls: {len(found)} identities of {path} match. Set TEAMWIRE_AS to one of "
            f"{', '.join(known) or 'none'}, set TEAMWIRE_CREDENTIAL, or join with `teamwire join`."
        )
    return known[found[0]]
