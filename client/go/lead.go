package teamwire

import (
	"context"
	"errors"
	"strings"
	"time"

	v1 "github.com/teamwire/teamwire/client/go/teamwire/v1"
)

const (
	// pageMax is the largest page of a list.
	pageMax = 1000
	// exitDelayMin and exitDelayMax bound the delay between two looks at a member that is exiting.
	exitDelayMin, exitDelayMax = 100 * time.Millisecond, time.Second
)

// Shutdown says how a shutdown ended.
type Shutdown struct {
	// Request has the decision. It is still pending if the time ran out first.
	Request *v1.Request
	// Exit says how the member's process ended. Nil: it has not exited in time, or no exit was reported.
	Exit *v1.ExitReport
}

// CreateTeam creates a team as an operator, and returns the client of its lead. lead is the lead's name; if empty, it is `lead`.
// Close both clients.
func (c *Client) CreateTeam(ctx context.Context, name, lead string) (*Client, error) {
	created, err := c.Teams.CreateTeam(ctx, &v1.CreateTeamRequest{Name: name, LeadName: lead})
	if err != nil {
		return nil, err
	}
	o := c.options()
	o.Credential, o.Team = created.GetCredential(), created.GetTeam().GetName()
	return open(o)
}

// Members lists all members in the order in which they first joined, including those that have exited.
func (c *Client) Members(ctx context.Context) ([]*v1.Member, error) {
	var members []*v1.Member
	for request := (&v1.ListMembersRequest{PageSize: pageMax}); ; {
		page, err := c.Teams.ListMembers(ctx, request)
		members = append(members, page.GetMembers()...)
		if request.PageToken = page.GetNextPageToken(); err != nil || request.PageToken == "" {
			return members, err
		}
	}
}

// RequestShutdown asks a member to shut down. It returns the id of the request, or of the one that is already pending.
func (c *Client) RequestShutdown(ctx context.Context, member, reason string) (string, error) {
	request := &v1.ShutdownRequest{Recipient: member, Reason: reason}
	reply, err := c.Messages.Send(ctx, &v1.SendRequest{Body: &v1.SendRequest_ShutdownRequest{ShutdownRequest: request}})
	var refused *Error
	if errors.As(err, &refused) && refused.Reason == "SHUTDOWN_PENDING" && refused.Metadata["request_id"] != "" {
		return refused.Metadata["request_id"], nil
	}
	return reply.GetRequestId(), err
}

// Shutdown asks a member to shut down, and waits for its decision and, unless it refuses, its exit. It returns after patience at
// the latest. It joins a request that is already pending for the member.
func (c *Client) Shutdown(ctx context.Context, member, reason string, patience time.Duration) (Shutdown, error) {
	until := time.Now().Add(patience)
	id, err := c.RequestShutdown(ctx, member, reason)
	if err != nil {
		return Shutdown{}, err
	}
	ended := Shutdown{}
	if ended.Request, err = c.WaitDecision(ctx, id, time.Until(until)); err != nil {
		return ended, err
	}
	switch ended.Request.GetState() {
	case v1.RequestState_REQUEST_STATE_APPROVED, v1.RequestState_REQUEST_STATE_CANCELLED:
		ended.Exit, err = c.waitExit(ctx, ended.Request, until)
	}
	return ended, err
}

// waitExit waits until the life of the member that was asked has ended, and returns how.
func (c *Client) waitExit(ctx context.Context, request *v1.Request, until time.Time) (*v1.ExitReport, error) {
	// A coordinator that does not answer must not make the wait longer.
	bounded, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for delay := exitDelayMin; ; delay = min(2*delay, exitDelayMax) {
		members, err := c.Members(bounded)
		if err != nil && bounded.Err() != nil && ctx.Err() == nil {
			return nil, nil // the time is over
		}
		if err != nil {
			return nil, err
		}
		var asked *v1.Member
		for _, member := range members {
			if strings.EqualFold(member.GetName(), request.GetMember()) && member.GetIncarnation() == request.GetIncarnation() {
				asked = member
			}
		}
		switch asked.GetState() {
		case v1.MemberState_MEMBER_STATE_EXITED, v1.MemberState_MEMBER_STATE_LOST:
			return asked.GetExit(), nil
		}
		if asked == nil {
			return nil, nil
		}
		_ = c.pause(bounded, delay) // the next call reports any error
	}
}
