"""TLS: whom a client trusts, and what it shows of itself."""

from __future__ import annotations

import asyncio
import hashlib
import os
import ssl
from pathlib import Path

import grpc

from ._errors import unsent
from ._identity import Address, Tls

_OPENING = 5.0
"""How long a connection may take to be there, in seconds."""


class Trust:
    """Makes gRPC's credentials for one coordinator after the other."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._authority = b""
        self._credentials: grpc.ChannelCredentials | None = None

    async def credentials(self, address: Address) -> grpc.ChannelCredentials:
        """Reads the files anew, for certificates are renewed. When one cannot be read any more, the last ones stay."""
        tls = self._tls
        try:
            if tls.ca:
                self._authority = _pem(tls.ca)
            elif not self._authority:
                fetched = _fetch_authority(address, tls.digest) if tls.fingerprint else asyncio.to_thread(_authorities)
                self._authority = await fetched
            key, cert = (_pem(tls.key), _pem(tls.cert)) if tls.cert else (None, None)
            self._credentials = grpc.ssl_channel_credentials(self._authority, key, cert)
        except OSError as error:
            if not self._credentials:
                raise ValueError(f"TLS cannot be set up: {error}.") from None
        return self._credentials


def _pem(text: str) -> bytes:
    return text.encode() if "-----BEGIN" in text else Path(text).read_bytes()


def _authorities() -> bytes:
    """Returns the system's authorities. gRPC knows its own only."""
    context = ssl.create_default_context()
    found = [ssl.DER_cert_to_PEM_cert(der).encode() for der in context.get_ca_certs(binary_form=True)]
    if not found and (directory := ssl.get_default_verify_paths().capath):
        # OpenSSL reads these one by one, when it needs them.
        found = [Path(directory, name).read_bytes() for name in os.listdir(directory) if name.endswith(".0")]
    return b"".join(found)


async def _fetch_authority(address: Address, digest: bytes) -> bytes:
    """Returns the certificate of the coordinator's chain that has the fingerprint.

    The chain is not verified here: what is returned is then the only authority for the real connections.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    opening = asyncio.open_connection(address.host, address.port, ssl=context, server_hostname=address.host)
    try:
        _, writer = await asyncio.wait_for(opening, _OPENING)
    except (OSError, asyncio.TimeoutError) as error:
        raise unsent(f"{address} cannot be reached: {error or 'no answer'}", isinstance(error, ssl.SSLError)) from None
    session = writer.get_extra_info("ssl_object")
    writer.transport.abort()
    # Public since Python 3.13.
    chain = getattr(session, "get_unverified_chain", None) or session._sslobj.get_unverified_chain
    for certificate in chain():
        is_der = isinstance(certificate, bytes)
        der = certificate if is_der else ssl.PEM_cert_to_DER_cert(certificate.public_bytes())
        if hashlib.sha256(der).digest() == digest:
            return ssl.DER_cert_to_PEM_cert(der).encode()
    raise unsent(
        f"{address} does not show the certificate of the fingerprint, so it is another coordinator than "
        "the join string is for. Ask for a new join string; if that does not help, somebody may be in between.",
        is_insecure=True,
    )
