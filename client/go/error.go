package teamwire

import (
	"fmt"
	"regexp"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Error is why a call did not succeed. It is a gRPC status, too: status.Code(err) returns its code.
type Error struct {
	// Reason is the row of the protocol's table, such as AGENT_NOT_FOUND. Empty: the error comes from elsewhere, such
	// as a broken connection.
	Reason string
	// Field is the field of the request that is at fault. Empty: none.
	Field string
	// Metadata holds facts for a program, such as the id of a pending request.
	Metadata map[string]string
	// RetryAfter is how long to wait before the same call may succeed. Zero: not said.
	RetryAfter time.Duration

	status   *status.Status
	cause    error // what has ended the tries: the caller's context, or the client's patience
	mayTrust bool  // the client was answered before, so that what looks like distrust may pass, such as a proxy's reply
}

// newError reads what a status carries. cause: what has put an end to the call here. Nil: nothing did.
func newError(err, cause error) *Error {
	e := &Error{status: status.Convert(err), cause: cause}
	for _, detail := range e.status.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.Domain == "teamwire" {
				e.Reason, e.Metadata = detail.Reason, detail.Metadata
			}
		case *errdetails.BadRequest:
			for _, violation := range detail.FieldViolations[:min(1, len(detail.FieldViolations))] {
				e.Field = violation.Field
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = detail.RetryDelay.AsDuration()
		}
	}
	return e
}

// Error returns the message, which says what to do, and the reason or else the code.
func (e *Error) Error() string {
	switch {
	case e.isDistrust():
		return "teamwire: check the address, whether it is http or https there, and whom to trust: " + e.status.Message()
	case e.Reason == "":
		return fmt.Sprintf("teamwire: %s (%s)", e.status.Message(), e.status.Code())
	}
	return fmt.Sprintf("teamwire: %s (%s)", e.status.Message(), e.Reason)
}

// GRPCStatus returns the status as it came.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// Unwrap returns context.Canceled or context.DeadlineExceeded where the call was given up.
func (e *Error) Unwrap() error { return e.cause }

// distrust is how gRPC's messages name what will not pass by itself: TLS does not trust, or nobody speaks HTTP/2 there.
var distrust = regexp.MustCompile(`tls: |x509: |server preface: (http2: |unexpected EOF)`)

func (e *Error) isDistrust() bool {
	return !e.mayTrust && e.status.Code() == codes.Unavailable && distrust.MatchString(e.status.Message())
}

// isPassing returns whether the same call, with the same idempotency key, may succeed later.
func (e *Error) isPassing() bool {
	if e.Reason != "" {
		return isRetried(e.Reason)
	}
	switch e.status.Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unknown:
		return !e.isDistrust()
	}
	return false
}

// isFinal returns whether a subscription would meet with the same again.
func (e *Error) isFinal() bool {
	if e.Reason != "" {
		return !isReopened(e.Reason)
	}
	switch e.status.Code() {
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return true
	}
	return e.isDistrust()
}
