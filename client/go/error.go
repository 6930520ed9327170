package teamwire

import (
	"fmt"
	"regexp"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Error describes a failed call. It is also a gRPC status: status.Code(err) returns its code.
type Error struct {
	// Reason says why the coordinator refused, such as AGENT_NOT_FOUND. Empty if no coordinator refused, for example after
	// a broken connection.
	Reason string
	// Field is the request field at fault. Empty if there is none.
	Field string
	// Metadata holds facts for a program, such as the id of a pending request.
	Metadata map[string]string
	// RetryAfter is the delay that the coordinator asks for before a retry. Zero if it asks for none.
	RetryAfter time.Duration

	// OutcomeUnknown says that the call may have been carried out all the same. Repeating it with the same idempotency key is safe.
	OutcomeUnknown bool

	status   *status.Status
	cause    error // why retrying stopped: the caller's context, the client's patience, or Close
	isOnce   bool  // the call must not be repeated while its outcome is unknown
	mayTrust bool  // a coordinator has answered before, so a TLS failure may be temporary, such as a proxy's reply
}

// newError converts an error of gRPC. cause is why the client ended the call itself, or nil.
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

// Error returns the message, which says what to do, and the reason, or without one the code.
func (e *Error) Error() string {
	switch {
	case e.isDistrust():
		return "teamwire: check the address, its scheme (http or https), and the trusted CA: " + e.status.Message()
	case e.Reason == "":
		return fmt.Sprintf("teamwire: %s (%s)", e.status.Message(), e.status.Code())
	}
	return fmt.Sprintf("teamwire: %s (%s)", e.status.Message(), e.Reason)
}

// GRPCStatus returns the status as received.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// Unwrap returns context.Canceled or context.DeadlineExceeded if the client gave up the call.
func (e *Error) Unwrap() error { return e.cause }

// distrust matches the texts of gRPC for permanent failures to connect: a TLS failure, or a server without HTTP/2.
var distrust = regexp.MustCompile(`tls: |x509: |server preface: (http2: |unexpected EOF)`)

func (e *Error) isDistrust() bool {
	return !e.mayTrust && e.status.Code() == codes.Unavailable && distrust.MatchString(e.status.Message())
}
