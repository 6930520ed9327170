"""What a call raises when it did not succeed."""

from __future__ import annotations

from collections.abc import Mapping

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

_DOMAIN = "teamwire"

# How gRPC says that it found nobody, and that TLS was the reason. There is no code for the one or the other.
_UNSENT = ("failed to connect to all addresses", "DNS resolution failed")
_INSECURE = ("handshake failed", "CERTIFICATE_VERIFY_FAILED", "Peer name")


class Error(grpc.RpcError):
    """Why a call did not succeed, with what to do about it as its text."""

    def __init__(
        self,
        message: str,
        code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE,
        reason: str = "",
        field: str = "",
        metadata: Mapping[str, str] | None = None,
        retry_after: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.message = message
        self._code = code
        self.reason = reason
        """Such as `AGENT_NOT_FOUND`. Empty: it comes from elsewhere, such as a broken connection."""
        self.field = field
        """The field of the request that is at fault. Empty: none is."""
        self.metadata = dict(metadata or {})
        """Facts for a program, such as the id of a pending request."""
        self.retry_after = retry_after
        """In how many seconds to try again. Zero: not said."""
        self.is_unsent = False
        """True: no coordinator could be reached, so nothing was sent."""
        self.is_insecure = False
        """True: it could not because TLS stands in the way, which it will until somebody changes something."""

    def __str__(self) -> str:
        return f"{self.reason or self._code.name}: {self.message}"

    def code(self) -> grpc.StatusCode:
        """The gRPC code; a method, as with every error of gRPC."""
        return self._code

    def details(self) -> str:
        """The message, by the name that gRPC has for it."""
        return self.message

    @classmethod
    def of(cls, failure: grpc.aio.AioRpcError) -> Error:
        """Reads what gRPC raised. Details that cannot be read are left out."""
        error = cls(failure.details() or "The call failed without a word.", failure.code())
        try:
            for key, value in failure.trailing_metadata() or ():
                if key == "grpc-status-details-bin" and isinstance(value, bytes):
                    for detail in status_pb2.Status.FromString(value).details:
                        error._add(detail)
        except (DecodeError, TypeError):
            pass
        if not error.reason:
            error.is_unsent = any(sign in error.message for sign in _UNSENT)
            error.is_insecure = error.is_unsent and any(sign in error.message for sign in _INSECURE)
        return error

    def _add(self, detail: any_pb2.Any) -> None:
        info, bad, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
        if detail.Unpack(info) and info.domain == _DOMAIN:
            self.reason, self.metadata = info.reason, dict(info.metadata)
        elif detail.Unpack(bad) and bad.field_violations:
            self.field = bad.field_violations[0].field
        elif detail.Unpack(retry):
            self.retry_after = max(0.0, retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9)


def unsent(message: str, is_insecure: bool) -> Error:
    """Makes the error of a connection that could not be made."""
    error = Error(message)
    error.is_unsent, error.is_insecure = True, is_insecure
    return error
