"""Join strings, addresses, the environment and the context file."""

import json
import os
import socket
import tempfile
from pathlib import Path

import pytest

from teamwire._identity import Identity, Tls, find, foreign_socket, joining

SECRET = "0123456789abcdef"
TOKEN = f"twj:acme:x1:{SECRET}"
PIN = "sha256:" + "0a" * 32
PEM = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("http://127.0.0.1:7420", [("http", "127.0.0.1", 7420)]),
        ("localhost:7420", [("http", "localhost", 7420)]),
        ("HTTPS://Coord.Example/", [("https", "coord.example", 443)]),
        ("https://[0:0::1]", [("https", "::1", 443)]),
        ("a_b, c:1", [("http", "a_b", 80), ("http", "c", 1)]),
        ("unix:///A%20b/c.sock", [("unix", "/A b/c.sock", 0)]),
    ],
)
def test_addresses_are_parsed(text: str, targets: list[tuple[str, str, int]]) -> None:
    assert Identity(text, TOKEN).targets == targets


@pytest.mark.parametrize(
    "text",
    [
        "",
        "http://",
        "ftp://x",
        "a b",
        "a\nb",
        "http://a/b",
        "http://u@a",
        "a:0",
        "a:65536",
        "a:+1",
        "a:١",
        "[::1",
        "[::1]x",
    ]
    + ["[fe80::1%25eth0]", "[1]", "::1", "a:1:2", "a?b", "http://a,https://b", "a,", ",".join("a" * 17), f"{SECRET}@a"]
    + ["unix://a", "unix:///", "unix:///a/", "unix:///a%00", "unix:///%ff", "unix:///a,http://b"],
)
def test_a_malformed_address_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"address") as refused:
        Identity(text, TOKEN)
    assert SECRET not in str(refused.value)


def test_a_join_string_takes_precedence_over_the_environment() -> None:
    elsewhere = {"TEAMWIRE_ADDRESS": "http://elsewhere", "TEAMWIRE_CA": "elsewhere.crt", "TEAMWIRE_TEAM": "elsewhere"}
    found = joining(f" {TOKEN}@https://a:1,https://[::1]:2+{PIN}\n", None, elsewhere)
    assert found.address == "https://a:1,https://[::1]:2"
    assert (found.credential, found.team, found.tls) == (TOKEN, "", Tls(fingerprint=PIN))
    assert joining(TOKEN + "@http://a", None, elsewhere).tls == Tls("elsewhere.crt")


def test_a_bare_token_uses_the_address_from_the_environment() -> None:
    assert joining(TOKEN, None, {"TEAMWIRE_ADDRESS": "http://here:1"}).address == "http://here:1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        SECRET,
        f"two:{SECRET} x",
        f"{TOKEN}@",
        f"{TOKEN}@ftp://a",
        f"{TOKEN}@https://a+sha256:00",
        f"{TOKEN}@https://a+",
    ]
    + [
        f"{TOKEN}@https://a+md5:00",
        f"{TOKEN}@http://a+{PIN}",
        f"{TOKEN}@https://a@https://b",
        f"{TOKEN}@" + "a" * 9000,
    ],
)
def test_a_malformed_join_string_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(ValueError, match=r"join string|address|fingerprint") as refused:
        joining(text, None, {})
    assert SECRET not in str(refused.value)


def test_precedence_is_options_then_environment_then_context_file(tmp_path: Path) -> None:
    tls = {"ca": PEM, "cert": "kept.crt", "key": "kept.key", "fingerprint": PIN}
    kept = {"team": "acme", "member": "bob", "address": "https://kept:1", "credential": f"twm:acme:bob:{SECRET}"}
    path = tmp_path / "context.json"
    path.write_text(json.dumps({"identities": [kept | {"tls": tls}]}))
    path.chmod(0o600)
    variables = {"TEAMWIRE_CONTEXT": str(path), "TEAMWIRE_ADDRESS": "", "TEAMWIRE_CA": ""}
    found = find(environment=variables)
    assert (found.address, found.member, found.tls) == ("https://kept:1", "bob", Tls(**tls))
    variables |= {"TEAMWIRE_ADDRESS": "https://env:1", "TEAMWIRE_CA": "env.crt"}
    found = find(environment=variables)
    assert (found.address, found.tls) == ("https://env:1", Tls("env.crt", "kept.crt", "kept.key"))
    found = find("https://typed:1", tls=Tls(ca="typed.crt"), environment=variables)
    assert (found.address, found.tls.ca) == ("https://typed:1", "typed.crt")
    # With its own credential, it ignores the context file.
    found = find(environment={"TEAMWIRE_CONTEXT": str(path), "TEAMWIRE_CREDENTIAL": TOKEN})
    assert (found.tls, found.member) == (Tls(), "")
    assert found.address.startswith("unix:///")
    assert found.address.endswith("/teamwire/coordinator.sock")
    found = find(environment={"TEAMWIRE_STATE_DIR": "/a b", "TEAMWIRE_CREDENTIAL": TOKEN})
    assert found.address == "unix:///a%20b/coordinator.sock"


@pytest.mark.parametrize(
    ("current", "named", "team", "selected"),
    [
        ("Bob@A", "", "", "Bob@A"),
        ("Bob@A", "", "a", "Bob@A"),
        ("Bob@A", "", "c", "solo@c"),
        ("Bob@A", "lead", "a", "lead@A"),
        ("", "bob@a", "", "Bob@A"),
        ("", "SOLO", "", "solo@c"),
        ("", "", "", None),
        ("", "", "A", None),
        ("", "lead", "", None),
        ("Bob@A", "bob@a", "b", None),
        ("Bob@A", "eve", "", None),
        ("Bob@A", "b.b", "", None),
        ("Bob@A", "", "nope", None),
    ],
)
def test_the_identity_is_selected_and_never_guessed(
    tmp_path: Path, current: str, named: str, team: str, selected: str | None
) -> None:
    names = [name.split("@") for name in ("lead@b", "Bob@A", "lead@A", "solo@c")]
    known = [{"team": team, "member": name, "credential": f"twm:{team}:{name}:{SECRET}"} for name, team in names]
    path = tmp_path / "teamwire" / "context.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"current": current or None, "identities": known}))
    path.chmod(0o600)
    variables = {"XDG_CONFIG_HOME": str(tmp_path), "TEAMWIRE_AS": named, "TEAMWIRE_TEAM": team}
    if selected:
        name, of = selected.split("@")
        assert find(environment=variables).credential == f"twm:{of}:{name}:{SECRET}"
    else:
        with pytest.raises(ValueError, match=r"TEAMWIRE_AS.*lead@b, Bob@A, lead@A, solo@c"):
            find(environment=variables)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"identities": 1}', '{"identities": [1]}', '{"identities": [{"member": 1}]}', "\xff"]
    + [f'{{"identities": [{{"member": "a", "team": "b", "credential": {{"{SECRET}": 1}}}}]}}'],
)
def test_a_malformed_context_file_is_named_without_quoting_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "context.json"
    path.write_text(text, "latin-1")
    path.chmod(0o600)
    with pytest.raises(ValueError, match=r"malformed|credential") as refused:
        find(environment={"TEAMWIRE_CONTEXT": str(path)})
    assert SECRET not in str(refused.value)


def test_without_any_identity_the_error_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="TEAMWIRE_CREDENTIAL"):
        find(environment={"HOME": str(tmp_path)})


def test_secrets_are_not_in_errors_or_reprs() -> None:
    identity = Identity("https://a", TOKEN, "", Tls(cert=PEM, key=f"-----BEGIN{SECRET}"))
    assert SECRET not in repr(identity)
    for credential in ("", f"{SECRET}\n", f"{SECRET} x", f"{SECRET}é"):
        with pytest.raises(ValueError, match="credential") as refused:
            Identity("a", credential)
        assert SECRET not in str(refused.value)


OWN = {"TEAMWIRE_RUN": "run-1", "TEAMWIRE_CREDENTIAL": f"twm:acme:ann:{SECRET}", "TEAMWIRE_MEMBER": "ann"}


@pytest.mark.parametrize(
    ("credential", "changes"),
    [
        (f"twm:acme:lead:{SECRET}", {}),
        ("", {"TEAMWIRE_CREDENTIAL": ""}),
        ("", {"TEAMWIRE_CREDENTIAL": f"twm:acme:lead:{SECRET}"}),
        ("", {"TEAMWIRE_CREDENTIAL": f"two:{SECRET}", "TEAMWIRE_MEMBER": ""}),
        ("", {"TEAMWIRE_TEAM": "blue"}),
        ("", {"TEAMWIRE_AS": "lead"}),
        ("", {"TEAMWIRE_AS": "ann@blue"}),
    ],
)
def test_within_a_runner_every_other_identity_is_refused(credential: str, changes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"runs under `teamwire run`") as refused:
        find(credential=credential, environment=OWN | changes)
    assert SECRET not in str(refused.value)


def test_within_a_runner_only_the_runners_member_is_used_and_joining_is_refused() -> None:
    own = OWN["TEAMWIRE_CREDENTIAL"]
    assert find(environment=OWN | {"TEAMWIRE_AS": "Ann@Acme", "TEAMWIRE_TEAM": "ACME"}).member == "ann"
    assert find(credential=own, environment=OWN).credential == own
    with pytest.raises(ValueError, match="no other identity"):
        joining(TOKEN + "@http://a", None, OWN)


@pytest.mark.parametrize("address", ["http://b", "b:1", "HTTP://kept:1", "a,b"])
def test_a_credential_saved_for_https_is_not_sent_over_http(tmp_path: Path, address: str) -> None:
    kept = {"team": "acme", "member": "bob", "address": "https://kept:1", "credential": f"twm:acme:bob:{SECRET}"}
    path = tmp_path / "context.json"
    path.write_text(json.dumps({"identities": [kept]}))
    path.chmod(0o600)
    for given, variable in ((address, ""), ("", address)):
        with pytest.raises(ValueError, match=r"bob@acme was saved for https://kept:1, .* not sent over http\."):
            find(given, environment={"TEAMWIRE_CONTEXT": str(path), "TEAMWIRE_ADDRESS": variable})


@pytest.mark.parametrize("address", ["http://127.0.0.1:7420", "localhost:1", "[::1]:1"])
def test_a_credential_for_plain_loopback_is_not_sent_there_unasked(tmp_path: Path, address: str) -> None:
    kept = {"team": "acme", "member": "bob", "address": address, "credential": f"twm:acme:bob:{SECRET}"}
    path = tmp_path / "context.json"
    path.write_text(json.dumps({"identities": [kept]}))
    path.chmod(0o600)
    with pytest.raises(ValueError, match=r"any program on this machine can listen"):
        find(environment={"TEAMWIRE_CONTEXT": str(path)})
    assert find(address, environment={"TEAMWIRE_CONTEXT": str(path)}).member == "bob"


def test_a_socket_that_others_could_have_put_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        assert foreign_socket(str(path)) == ""
        tmp_path.chmod(0o777)
        assert "can be changed by others" in foreign_socket(str(path))
    with pytest.raises(OSError, match="No such file"):
        foreign_socket("/nowhere/c.sock")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_socket_is_another_users_if_no_one_else_could_have_put_it_there() -> None:
    with tempfile.TemporaryDirectory(dir="/run") as name, socket.socket(socket.AF_UNIX) as listener:
        path = Path(name, "c.sock")
        listener.bind(str(path))
        for place in (path, path.parent):
            os.chown(place, 65_534, -1)
        path.parent.chmod(0o755)
        assert foreign_socket(str(path)) == ""
        path.parent.chmod(0o775)
        assert "can be changed by others" in foreign_socket(str(path))
        path.parent.chmod(0o755)
        os.chown(path.parent, 65_533, -1)
        assert "belongs to user 65533" in foreign_socket(str(path))


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o602])
def test_a_context_file_that_other_users_can_access_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "context.json"
    kept = {"team": "acme", "member": "bob", "address": "http://kept:1", "credential": f"twm:acme:bob:{SECRET}"}
    path.write_text(json.dumps({"identities": [kept]}))
    path.chmod(mode)
    with pytest.raises(ValueError, match=rf"\(mode {mode:o}\), so it is not trusted.* chmod 600 {path}"):
        find(environment={"TEAMWIRE_CONTEXT": str(path)})
    path.chmod(0o600)
    assert find(environment={"TEAMWIRE_CONTEXT": str(path)}).member == "bob"
