"""Finds the credential, the address and the TLS settings: in the options, the environment, or the context file."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from ipaddress import AddressValueError, IPv6Address
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

_ADDRESS = re.compile(r"(?:(https?)://)?(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]{1,253}))(?::([0-9]{1,5}))?/?", re.I | re.A)
_LOOPBACK = re.compile(r"(?:.*\.)?localhost|127\.[0-9.]+|::1")
_CREDENTIAL = re.compile(r"[!-~]{1,512}")
_FINGERPRINT = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.I)
_JOIN_STRING = re.compile(r"(tw[jm]:[\w.:-]+)(?:@([^@+]+)(?:\+(sha256:[0-9a-f]{64}))?)?", re.I | re.A)
_JOIN_STRING_CHARS_MAX = 8 * 1024


@dataclass(frozen=True)
class Tls:
    """TLS settings. All but the fingerprint are PEM or a file path. Empty means not set."""

    ca: str = field(default="", repr=False)
    """The only authorities to trust. If empty: the fingerprint's certificate, else the system's authorities."""
    cert: str = field(default="", repr=False)
    """The client certificate, followed by its intermediates. Requires `key`."""
    key: str = field(default="", repr=False)
    fingerprint: str = ""
    """The SHA-256 of the certificate in the coordinator's chain to trust as the only authority. Ignored with a `ca`."""


class Target(NamedTuple):
    """The address of a coordinator."""

    scheme: str
    """`https`, `http` or `unix`."""
    host: str
    """Without brackets. With `unix`: the path of the socket."""
    port: int
    """With `unix`: 0."""

    @property
    def is_tls(self) -> bool:
        return self.scheme == "https"

    @property
    def is_unproven(self) -> bool:
        """Whether any program on this machine could listen there."""
        return self.scheme == "http" and bool(_LOOPBACK.fullmatch(self.host))


@dataclass(frozen=True)
class Identity:
    """The address and the credential. Raises ValueError if malformed. Its errors and repr show no secret."""

    address: str
    """1 to 16 addresses, separated by commas, all with the same scheme."""
    credential: str = field(repr=False)
    team: str = ""
    """Filled into every request that names no team. Only an operator needs it."""
    tls: Tls = Tls()

    def __post_init__(self) -> None:
        # gRPC's own error would contain it.
        if not _CREDENTIAL.fullmatch(self.credential):
            raise ValueError("The credential is empty or has invalid characters. Paste it exactly as it was issued.")
        if bool(self.tls.cert) != bool(self.tls.key):
            raise ValueError("A client certificate requires its key: set both TEAMWIRE_CERT and TEAMWIRE_KEY.")
        if self.tls.fingerprint and not (_FINGERPRINT.fullmatch(self.tls.fingerprint) and self.targets[0].is_tls):
            raise ValueError("A fingerprint is `sha256:` followed by 64 hexadecimal digits, and requires https.")
        if len({target.scheme for target in self.targets}) > 1 or len(self.targets) > 16:
            raise ValueError("The addresses mix http, https and unix, or there are more than 16.")

    @property
    def targets(self) -> list[Target]:
        """The parsed addresses."""
        return [_parse_address(text.strip()) for text in self.address.split(",", 17)]

    @property
    def member(self) -> str:
        """The member that the credential names in clear text. Empty if it is not a member's."""
        parts = self.credential.split(":")
        return parts[2] if parts[0] == "twm" and len(parts) == 4 else ""

    @property
    def credential_team(self) -> str:
        """The team that the credential names in clear text. Empty if it is an operator's."""
        parts = self.credential.split(":")
        return parts[1] if len(parts) == 4 else ""


def _parse_address(text: str) -> Target:
    # Keep the text out of the error: it may be a join string pasted by mistake.
    malformed = ValueError("An address is malformed. Write https://HOST:PORT, http://HOST:PORT or unix:///PATH.")
    if text[:7].lower() == "unix://":
        try:
            path = unquote(text[7:], errors="strict")
        except UnicodeDecodeError:
            raise malformed from None
        if not path.startswith("/") or path.endswith("/") or "\0" in path:
            raise malformed
        return Target("unix", path, 0)
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
    return Target("https" if is_tls else "http", host, number)


def find(
    address: str = "",
    credential: str = "",
    team: str = "",
    tls: Tls | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Identity:
    """Returns the identity from these arguments, then the environment, then the context file.

    Raises ValueError, which says what to set.
    """
    _check_within_runner(credential, environment)
    variables = {part: environment.get(f"TEAMWIRE_{part}", "") for part in ("ADDRESS", "CREDENTIAL", "TEAM", "AS")}
    team, credential = team or variables["TEAM"], credential or variables["CREDENTIAL"]
    kept: Any = {} if credential else _choose(_context_path(environment), variables["AS"], team)
    shown = {part: environment.get(f"TEAMWIRE_{part.upper()}") for part in ("ca", "cert", "key")}
    parts: dict[str, str] = {}
    for source in (kept.get("tls", {}), shown, asdict(tls or Tls())):
        trust = {"ca": "", "fingerprint": ""} if source.get("ca") or source.get("fingerprint") else {}
        parts |= trust | {name: str(source[name]) for name in source.keys() & asdict(Tls()) if source[name]}
    saved = str(kept.get("address") or "")
    given = address or variables["ADDRESS"]
    address = given or saved or _default_address(environment)
    found = Identity(address, credential or str(kept.get("credential")), team, Tls(**parts))
    if saved and not given and any(target.is_unproven for target in found.targets):
        raise ValueError(
            f"{kept['member']}@{kept['team']} was saved for {saved}, where any program on this machine can listen, so "
            "its credential is not sent there unasked. If the coordinator is there, set TEAMWIRE_ADDRESS."
        )
    if saved.lower().startswith("https:") and found.targets[0].scheme == "http":
        raise ValueError(
            f"{kept['member']}@{kept['team']} was saved for {saved}, so its credential is not sent over http. Write "
            "the address with https://, or leave it out (TEAMWIRE_ADDRESS)."
        )
    return found


def _check_within_runner(credential: str, environment: Mapping[str, str]) -> None:
    """Raises ValueError if a runner started this process and anything selects another identity than its member.

    This prevents mistakes, such as a program that loses its credential and then acts as the person who started it.
    """
    if not environment.get("TEAMWIRE_RUN"):
        return
    own = environment.get("TEAMWIRE_CREDENTIAL", "")
    if not own:
        raise ValueError(
            "This process runs under `teamwire run`, so it may only act as the runner's member, but "
            "TEAMWIRE_CREDENTIAL is not set. Run it with the environment that the runner gave to its program."
        )
    parts = own.split(":")
    team, member = parts[1:3] if parts[0] == "twm" and len(parts) == 4 else ("", "")
    set_member, set_team, who = (environment.get(f"TEAMWIRE_{part}", "") for part in ("MEMBER", "TEAM", "AS"))
    name, _, of = who.partition("@")
    selected = ((set_member, member), (set_team, team), (name, member), (of, team))
    agrees = all(one.lower() in ("", its.lower()) for one, its in selected)
    if not (member and agrees and credential in ("", own)):
        raise ValueError(
            f"This process runs under `teamwire run` as {set_member or member}, and may act as no other identity. Use "
            "no other credential, join string or name (--as, TEAMWIRE_AS), and keep TEAMWIRE_CREDENTIAL as the runner "
            "set it."
        )


def joining(text: str, tls: Tls | None = None, environment: Mapping[str, str] = os.environ) -> Identity:
    """Parses `TOKEN@ADDRESS[,ADDRESS...][+sha256:HEX]`. A bare token uses the address from the environment.

    The string takes precedence over the environment, which may be another member's. Raises ValueError.
    """
    match = _JOIN_STRING.fullmatch(text.strip()) if len(text) <= _JOIN_STRING_CHARS_MAX else None
    if not match:
        raise ValueError("The join string is malformed. Paste all of it, exactly as `teamwire invite` printed it.")
    token, address, fingerprint = match.groups("")
    tls = replace(tls or Tls(), fingerprint=fingerprint) if fingerprint else tls
    return find(address, token, "", tls, {**environment, "TEAMWIRE_TEAM": ""})


def _default_address(environment: Mapping[str, str]) -> str:
    """Returns the socket of this user's coordinator, in its state directory."""
    base = environment.get("XDG_STATE_HOME") or Path(environment.get("HOME") or Path.home(), ".local", "state")
    directory = environment.get("TEAMWIRE_STATE_DIR") or Path(base, "teamwire")
    return f"unix://{quote(str(Path(directory, 'coordinator.sock')))}"


def foreign_socket(path: str) -> str:
    """Returns why nothing may be sent to a socket. Empty: it is certainly this user's, root's, or another user's who,
    except for root, alone could have put it there.

    Raises OSError if it is not there.
    """
    owner, me, above = Path(path).lstat().st_uid, os.geteuid(), list(Path(path).parents)
    is_ours = owner in (0, me)
    for place in (Path(path), *(above[:1] if is_ours else above)):
        status = place.lstat()
        is_shared = stat.S_ISDIR(status.st_mode) and status.st_mode & 0o022
        if status.st_uid not in (0, me if is_ours else owner) or is_shared or stat.S_ISLNK(status.st_mode):
            return (
                f"{place} belongs to user {status.st_uid} or can be changed by others, so nothing is sent to a "
                "coordinator there."
            )
    return ""


def _context_path(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME") or Path.home(), ".config")
    return Path(environment.get("TEAMWIRE_CONTEXT") or Path(base, "teamwire", "context.json"))


def _refuse_shared(path: Path) -> None:
    """Raises ValueError if other users can read or change a file, or could have planted it.

    Root's passes whatever its mode: container platforms mount files so.
    """
    if not path.exists() or not hasattr(os, "geteuid"):
        return
    owner, mode, me = path.stat().st_uid, stat.S_IMODE(path.stat().st_mode), os.geteuid()
    if owner not in (0, me) or (owner == me and mode & 0o077):
        raise ValueError(
            f"Other users can access {path} (mode {mode:o}), so it is not trusted. If only you have written there, "
            f"make it private: chmod 600 {path}"
        )


def _choose(path: Path, named: str, team: str) -> dict[str, Any]:
    """Selects the named identity of the context file, else the current one, else the only one. Never guesses."""
    _refuse_shared(path)
    try:
        file = json.loads(path.read_text("utf-8")) if path.exists() else {}
        known = {
            f"{entry['member']}@{entry['team']}": {**entry, "tls": dict(entry.get("tls") or {})}
            for entry in file.get("identities") or ()
        }
        current = str(file.get("current") or "")
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is malformed"
        raise ValueError(f"Cannot read the context file {path}: {why}.") from None

    def fits(who: str, wanted: str) -> bool:
        """Returns whether `NAME`, `NAME@TEAM` or the empty text matches this one and the selected team."""
        (member, _, its), (name, _, of) = who.lower().partition("@"), wanted.lower().partition("@")
        return name in ("", member) and {of, team.lower()} <= {"", its}

    found: list[str] = []
    for wanted in (named,) if named else (current, ""):
        found = found or [who for who in known if fits(who, wanted)]
    if len(found) != 1:
        raise ValueError(
            f"Cannot select an identity: {len(found)} in {path} match. Join a team with `teamwire join`, set "
            "TEAMWIRE_CREDENTIAL, or set TEAMWIRE_AS to an identity of this file, which has: "
            f"{', '.join(known) or 'none'}."
        )
    return known[found[0]]
