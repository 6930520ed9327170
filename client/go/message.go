package teamwire

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

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

// Broadcast sends a text to every other member.
func (c *Client) Broadcast(ctx context.Context, summary, content string) (*v1.SendResponse, error) {
	text := &v1.Broadcast{Summary: summary, Content: content}
	return c.Messages.Send(ctx, &v1.SendRequest{Body: &v1.SendRequest_Broadcast{Broadcast: text}})
}

// ApproveShutdown approves the caller's shutdown. It returns once the approval is recorded; the subscription then ends.
func (c *Client) ApproveShutdown(ctx context.Context, requestID string) (*v1.SendResponse, error) {
	return c.answerShutdown(ctx, &v1.ShutdownResponse{RequestId: requestID, Approve: proto.Bool(true)})
}

// RejectShutdown rejects the caller's shutdown.
func (c *Client) RejectShutdown(ctx context.Context, requestID, reason string) (*v1.SendResponse, error) {
	return c.answerShutdown(ctx, &v1.ShutdownResponse{RequestId: requestID, Approve: proto.Bool(false), Reason: reason})
}

func (c *Client) answerShutdown(ctx context.Context, answer *v1.ShutdownResponse) (*v1.SendResponse, error) {
	return c.Messages.Send(ctx, &v1.SendRequest{Body: &v1.SendRequest_ShutdownResponse{ShutdownResponse: answer}})
}

// SubmitPlan asks the lead to approve a plan. It returns the request id, for WaitDecision.
func (c *Client) SubmitPlan(ctx context.Context, plan, summary string) (string, error) {
	request := &v1.PlanApprovalRequest{Plan: plan, Summary: summary}
	reply, err := c.Messages.Send(ctx, &v1.SendRequest{Body: &v1.SendRequest_PlanApprovalRequest{PlanApprovalRequest: request}})
	return reply.GetRequestId(), err
}

// AnswerPlan approves or rejects a member's plan.
func (c *Client) AnswerPlan(ctx context.Context, author, requestID string, approve bool, feedback string) (*v1.SendResponse, error) {
	answer := &v1.PlanApprovalResponse{Recipient: author, RequestId: requestID, Approve: &approve, Feedback: feedback}
	return c.Messages.Send(ctx, &v1.SendRequest{Body: &v1.SendRequest_PlanApprovalResponse{PlanApprovalResponse: answer}})
}

// RequestPermission asks for permission to use a tool. An empty approver means the lead. It returns the request id, for
// WaitDecision.
func (c *Client) RequestPermission(ctx context.Context, approver, tool, summary, detail string) (string, error) {
	request := &v1.PermissionRequest{Recipient: approver, Tool: tool, Summary: summary, Detail: detail}
	reply, err := c.Messages.Send(ctx, &v1.SendRequest{Body: &v1.SendRequest_PermissionRequest{PermissionRequest: request}})
	return reply.GetRequestId(), err
}

// AnswerPermission approves or rejects another member's permission request.
func (c *Client) AnswerPermission(ctx context.Context, requestID string, approve bool, reason string) (*v1.SendResponse, error) {
	answer := &v1.PermissionResponse{RequestId: requestID, Approve: &approve, Reason: reason}
	return c.Messages.Send(ctx, &v1.SendRequest{Body: &v1.SendRequest_PermissionResponse{PermissionResponse: answer}})
}

// WithdrawRequest withdraws a permission request of the caller's. It returns the request; if it was decided before, it is
// unchanged.
func (c *Client) WithdrawRequest(ctx context.Context, requestID string) (*v1.Request, error) {
	reply, err := c.Requests.Withdraw(ctx, &v1.WithdrawRequest{RequestId: requestID})
	return reply.GetRequest(), err
}

// WaitDecision waits until a request is decided and returns it; after patience it returns it still pending.
func (c *Client) WaitDecision(ctx context.Context, requestID string, patience time.Duration) (*v1.Request, error) {
	for until := time.Now().Add(patience); ; {
		wait := durationpb.New(max(0, time.Until(until)))
		reply, err := c.Requests.WaitForDecision(ctx, &v1.WaitForDecisionRequest{RequestId: requestID, Timeout: wait})
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
