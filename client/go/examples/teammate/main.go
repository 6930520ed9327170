// A minimal teammate: echoes every message, and exits when its shutdown is approved.
//
//	TEAMWIRE_JOIN='twj:…' go run ./examples/teammate backend
package main

import (
	"cmp"
	"context"
	"log"
	"os"

	"github.com/teamwire/teamwire/client/go"
)

func main() {
	ctx := context.Background()
	client, err := connect(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	inbox := client.Subscribe(ctx)
	for message := range inbox.Messages() {
		switch {
		case message.GetMessage() != nil:
			_, err = client.Reply(ctx, message, "an echo", "You said: "+message.GetMessage().GetContent())
		case message.GetShutdownRequest() != nil:
			_, err = client.ApproveShutdown(ctx, message.GetRequestId())
		}
		if err != nil {
			log.Print(err)
		}
		message.Ack()
	}
	if inbox.End().Reason != teamwire.ShutdownApproved {
		log.Fatal("no longer a member: ", cmp.Or[any](inbox.Err(), inbox.End().Reason))
	}
	if err := cmp.Or(inbox.Flush(ctx), client.Leave(ctx, 0)); err != nil {
		log.Fatal(err)
	}
}

// connect joins with the join string in TEAMWIRE_JOIN, if set; else it uses the identity of the environment or the context file.
func connect(ctx context.Context) (*teamwire.Client, error) {
	joinString := os.Getenv("TEAMWIRE_JOIN")
	if joinString == "" {
		return teamwire.Connect(ctx)
	}
	name := os.Getenv("TEAMWIRE_NAME")
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	return teamwire.Join(ctx, joinString, name)
}
