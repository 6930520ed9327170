package teamwire

import (
	"context"
	"time"

	v1 "github.com/teamwire/teamwire/client/go/teamwire/v1"
)

// Send sends a text to one member; `team-lead` is the lead. summary is a one-line preview.
func (c *Client) Send(ctx context.Context, recipient, summary, content string) (*v1.SendResponse, error) {
	text := &v1.DirectMessage{Recipient: recipient, Summary: summary, Content: content}
	return c.Messages.Send(ctx, &v1.SendRequest{Body: &v1.SendRequest_Message{Message: text}})
}

// Reply sends a text to the sender of a message.
func (c *Client) Reply(ctx context.Context, to *Message, summary, content string) (*v1.SendResponse, error) {
	text := &v1.DirectMessage{Recipient: to.GetSender().GetName(), Summary: summary, Content: content}
	return c.Messages.Send(ctx, &v1.SendRequest{InReplyTo: to.GetId(), Body: &v1.SendRequest_Message{Message: text}})
}

// WaitDecision waits until a request is decided and returns it; after patience it returns it still pending.
func (c *Client) WaitDecision(ctx context.Context, requestID string, patience time.Duration) (*v1.Request, error) {
	for until := time.Now().Add(patience); ; {
		// A coordinator that does not answer must not make the wait longer.
		reply, err := c.Requests.WaitForDecision(ctx, &v1.WaitForDecisionRequest{RequestId: requestID}, waitUntil{time: until})
		if err != nil || reply.GetRequest().GetState() != v1.RequestState_REQUEST_STATE_PENDING || time.Now().After(until) {
			return reply.GetRequest(), err
		}
		_ = c.pause(ctx, delay(0)) // a draining coordinator may answer early; the next call reports any error
	}
}

// Leave ends the caller's life as a member, with its process's exit code. Call it last.
func (c *Client) Leave(ctx context.Context, code int32) error {
	_, err := c.Teams.Leave(ctx, &v1.LeaveRequest{Exit: &v1.ExitReport{Code: &code}})
	return err
}
