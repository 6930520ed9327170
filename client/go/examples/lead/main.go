// A minimal lead: invites a teammate, sends it a message, waits for the reply, and shuts it down.
//
//	teamwire team create acme
//	go run ./examples/lead backend
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"
	"time"

	"github.com/teamwire/teamwire/client/go"
	v1 "github.com/teamwire/teamwire/client/go/teamwire/v1"
)

func main() {
	name := "backend"
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	if err := lead(context.Background(), name); err != nil {
		log.Fatal(err)
	}
}

func lead(ctx context.Context, name string) error {
	client, err := teamwire.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	invitation, err := client.Invite(ctx, name)
	if err != nil {
		return err
	}
	fmt.Printf("I am %s of %s. Join with:\n%s\n", client.Name, client.Team, invitation.GetJoinString())

	inbox := client.Subscribe(ctx)
	for isThere := false; !isThere; time.Sleep(time.Second) {
		members, err := client.Members(ctx)
		if err != nil {
			return err
		}
		isThere = slices.ContainsFunc(members, func(member *v1.Member) bool { return member.GetName() == name })
	}
	sent, err := client.Send(ctx, name, "a question", "What is the answer?")
	if err != nil {
		return err
	}
	for message := range inbox.Messages() {
		message.Ack()
		if message.GetInReplyTo() == sent.GetMessageId() {
			fmt.Printf("%s replied: %s\n", name, message.GetMessage().GetContent())
			break
		}
	}

	ended, err := client.Shutdown(ctx, name, "Thank you.", 10*time.Minute)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s, exit: %v\n", name, ended.Request.GetState(), ended.Exit)
	return inbox.Flush(ctx)
}
