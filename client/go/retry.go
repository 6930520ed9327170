package teamwire

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
)

// delayMin bounds the first delay between attempts, delayMax every one.
const delayMin, delayMax = 100 * time.Millisecond, 5 * time.Second

// Retryable returns whether the same call, with the same idempotency key, may succeed later without a change.
func (e *Error) Retryable() bool {
	passes := e.isPassing()
	if e.Reason != "" {
		passes = isRetryable(e.Reason)
	}
	return passes && !(e.OutcomeUnknown && e.isOnce)
}

// isPassing returns whether the client itself makes another attempt.
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

// leavesOpen returns whether the failure says nothing about what earlier attempts did. Any other refusal of the same idempotency
// key shows that none was carried out.
func (e *Error) leavesOpen() bool {
	return e.Reason == "" || isRetried(e.Reason) || isOutcomeUnknown(e.Reason)
}

// mayBeDone returns whether the attempt may have been carried out.
func (e *Error) mayBeDone(isSent bool) bool {
	if e.Reason != "" {
		return isOutcomeUnknown(e.Reason) && e.Metadata["nothing_changed"] != "true"
	}
	return isSent && e.isPassing()
}

// hasWaited returns whether an attempt that failed after this time had reached a coordinator, which waited until the
// connection broke.
func (e *Error) hasWaited(isSent bool, elapsed time.Duration) bool {
	isBroken := e.Reason == "" && isSent && e.isPassing()
	return isBroken && e.status.Code() != codes.DeadlineExceeded && elapsed >= waitedMin
}

// isFinal returns whether another session of a subscription would fail likewise.
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

// delay returns how long to wait before a retry; the first is number 0.
func delay(n int) time.Duration {
	return rand.N(min(delayMin<<min(n, 10), delayMax))
}

// pause waits. It returns an error if ctx or the client ended first.
func (c *Client) pause(ctx context.Context, length time.Duration) error {
	select {
	case <-time.After(length):
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
	return cmp.Or(ctx.Err(), c.ctx.Err())
}
