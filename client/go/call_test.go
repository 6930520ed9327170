package teamwire

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "github.com/teamwire/teamwire/client/go/teamwire/v1"
)

func TestRefusalsAreRetriedOrFinal(t *testing.T) {
	for _, test := range []struct {
		err                error
		isPassing, isFinal bool
	}{
		{draining, true, false},
		{refusal(codes.Unavailable, "STORE_UNAVAILABLE"), true, false},
		{refusal(codes.Unavailable, "DURABILITY_NOT_REACHED"), true, false},
		{refusal(codes.ResourceExhausted, "RATE_LIMITED"), true, false},
		{refusal(codes.ResourceExhausted, "INBOX_FULL"), false, true},
		{refusal(codes.ResourceExhausted, "SLOW_CONSUMER"), false, false},
		{refusal(codes.Internal, "INTERNAL"), false, false},
		{refusal(codes.Unauthenticated, "CREDENTIAL_INVALID"), false, true},
		{status.Error(codes.Unavailable, "tcp"), true, false},
		{status.Error(codes.DeadlineExceeded, ""), true, false},
		{status.Error(codes.Canceled, ""), true, false},
		{status.Error(codes.Unknown, ""), true, false},
		{status.Error(codes.Internal, ""), false, false},
		{status.Error(codes.Unimplemented, ""), false, true},
		{status.Error(codes.PermissionDenied, ""), false, true},
		{status.Error(codes.Unavailable, "handshake failed: x509: certificate has expired"), false, true},
	} {
		e := newError(test.err, nil)
		if e.isPassing() != test.isPassing || e.isFinal() != test.isFinal {
			t.Errorf("%v: passing %v, final %v", e, e.isPassing(), e.isFinal())
		}
	}
}

func TestAnErrorCarriesAllDetailsOfTheRefusal(t *testing.T) {
	violation := &errdetails.BadRequest_FieldViolation{Field: "recipient"}
	f := newFake(t, refusal(codes.NotFound, "AGENT_NOT_FOUND", retryIn(time.Minute),
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{violation}}))
	_, err := client(t, f).Send(context.Background(), "bbo", "hi", "hello")
	var e *Error
	if !errors.As(err, &e) || e.Reason != "AGENT_NOT_FOUND" || e.Field != "recipient" || e.Metadata["closest"] != "bob" ||
		e.RetryAfter != time.Minute || status.Code(err) != codes.NotFound || err.Error() != "teamwire: no (AGENT_NOT_FOUND)" {
		t.Errorf("%+v", e)
	}
	foreign, _ := status.New(codes.Aborted, "no").WithDetails(&errdetails.ErrorInfo{Domain: "else", Reason: "X"})
	if e := newError(foreign.Err(), nil); e.Reason != "" {
		t.Errorf("%+v", e)
	}
}

func TestACallIsRetriedWithOneKeyAndNotBeforeRetryAfter(t *testing.T) {
	f := newFake(t, status.Error(codes.Unknown, ""), refusal(codes.ResourceExhausted, "RATE_LIMITED", retryIn(time.Second)))
	c, began := client(t, f), time.Now()
	if _, err := c.Send(context.Background(), "ann", "hi", "hello"); err != nil {
		t.Fatal(err)
	}
	if len(f.calls) != 3 || f.calls[0] != f.calls[2] || len(f.calls[0].key) != 36 || f.calls[0].team != "acme" ||
		f.calls[0].authorization != "Bearer twm:acme:bob:0123456789abcdef" || time.Since(began) < time.Second {
		t.Error(f.calls, time.Since(began))
	}
	if _, err := c.Messages.Send(context.Background(), &v1.SendRequest{IdempotencyKey: "mine", Team: "other"}); err != nil ||
		f.calls[3].key != "mine" || f.calls[3].team != "other" {
		t.Error(f.calls, err)
	}
}

func TestABrokenOrDrainingCoordinatorIsLeftForTheNextAddress(t *testing.T) {
	for _, err := range []error{draining, status.Error(codes.Unavailable, "broken")} {
		first, second := newFake(t, err), newFake(t)
		c := client(t, first, second)
		for range 2 {
			if _, err := c.Send(context.Background(), "ann", "hi", "hello"); err != nil {
				t.Fatal(err)
			}
		}
		if len(first.calls) != 1 || len(second.calls) != 2 || first.calls[0] != second.calls[0] {
			t.Error(first.calls, second.calls)
		}
	}
}

func TestACallWithoutAKeyIsRetriedOnlyIfNothingWasDone(t *testing.T) {
	f := newFake(t, draining, status.Error(codes.Unavailable, "broken"))
	_, err := client(t, f).Teams.SetLead(context.Background(), &v1.SetLeadRequest{})
	if status.Code(err) != codes.Unavailable || len(f.calls) != 2 {
		t.Error(err, f.calls)
	}
}

func TestAnErrorSaysWhetherTheOutcomeIsUnknownAndARepetitionMayHelp(t *testing.T) {
	broken := status.Error(codes.Unavailable, "broken")
	nothing := refusalWith(codes.Unavailable, "STORE_UNAVAILABLE", map[string]string{"nothing_changed": "true"})
	limited := refusal(codes.ResourceExhausted, "RATE_LIMITED")
	unreadable := refusalWith(codes.Internal, "INTERNAL", map[string]string{"nothing_changed": "true"})
	for n, test := range []struct {
		errs                   []error
		isUnknown, isRetryable bool
	}{
		{[]error{refusal(codes.ResourceExhausted, "INBOX_FULL")}, false, true},
		{[]error{refusal(codes.NotFound, "AGENT_NOT_FOUND")}, false, false},
		{[]error{broken, refusal(codes.NotFound, "AGENT_NOT_FOUND")}, false, false},
		{[]error{broken, broken, broken, broken, broken, broken, broken, broken}, true, true},
		{[]error{nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing}, false, true},
		{[]error{broken, nothing, nothing, nothing, nothing, nothing, nothing, nothing}, true, true},
		{[]error{broken, limited, limited, limited, limited, limited, limited, limited}, true, true},
		{[]error{refusal(codes.Internal, "INTERNAL")}, true, false},
		{[]error{unreadable}, false, false},
		{[]error{broken, unreadable}, true, false},
	} {
		c := client(t, newFake(t, test.errs...))
		c.patience = 300 * time.Millisecond
		_, err := c.Send(context.Background(), "ann", "hi", "hello")
		var e *Error
		if !errors.As(err, &e) || e.OutcomeUnknown != test.isUnknown || e.Retryable() != test.isRetryable {
			t.Errorf("%d: %v", n, err)
		}
	}
	for _, unknown := range []error{broken, refusal(codes.Unavailable, "STORE_UNAVAILABLE")} {
		_, err := client(t, newFake(t, nothing, unknown)).Teams.SetLead(context.Background(), &v1.SetLeadRequest{})
		var e *Error
		if !errors.As(err, &e) || !e.OutcomeUnknown || e.Retryable() {
			t.Errorf("a call without a key: %v", err)
		}
	}
}

func TestTheContextOrCloseEndsACall(t *testing.T) {
	f := newFake(t, refusal(codes.Unavailable, "STORE_UNAVAILABLE", retryIn(time.Hour)))
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := client(t, f).Send(ctx, "ann", "hi", "hello")
	var e *Error
	if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) || e.Reason != "STORE_UNAVAILABLE" {
		t.Error(err)
	}
	c := client(t, newFake(t, draining))
	c.Close()
	if _, err := c.Send(context.Background(), "ann", "hi", "hello"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
