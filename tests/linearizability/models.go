package main

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// The operations on a task.
type (
	// claim was answered with a token.
	claim struct{ token string }
	// complete was answered with OK.
	complete struct{ token string }
	// mayComplete has no known outcome.
	mayComplete struct{ token string }
	// seeTask reads whether the task is completed.
	seeTask struct{ isCompleted bool }
)

// taskState is a task: the token of its latest claim, and the token with which it was completed.
type taskState struct{ claimed, completed string }

// tasks: a claim makes every earlier token invalid, only the latest token completes the task, and it does so once.
var tasks = model(taskState{}, func(task taskState, does any) (bool, taskState) {
	switch does := does.(type) {
	case claim:
		return task.completed == "", taskState{claimed: does.token}
	case complete:
		if task.completed != "" {
			return task.completed == does.token, task
		}
		return task.claimed == does.token, taskState{task.claimed, does.token}
	case mayComplete:
		if task.completed == "" && task.claimed == does.token {
			task.completed = does.token
		}
		return true, task
	case seeTask:
		return (task.completed != "") == does.isCompleted, task
	}
	return false, task
})

// The operations on a request.
type (
	// decide was answered with OK.
	decide struct{ approve bool }
	// mayDecide has no known outcome.
	mayDecide struct{ approve bool }
	// see reads the state.
	see struct{ state string }
)

const pending = "pending"

func decision(approve bool) string {
	if approve {
		return "approved"
	}
	return "rejected"
}

// requests: a request is decided once, and keeps its decision. Without a decision it may end at any time.
var requests = model(pending, func(state string, does any) (bool, string) {
	switch does := does.(type) {
	case decide:
		return state == pending || state == decision(does.approve), decision(does.approve)
	case mayDecide:
		if state == pending {
			state = decision(does.approve)
		}
		return true, state
	case see:
		// Only a pending request expires, is withdrawn or is cancelled; nothing in the history says when.
		ends := does.state != pending && does.state != decision(true) && does.state != decision(false)
		return state == does.state || (ends && state == pending), does.state
	}
	return false, state
})

// The operations on the sessions of a member.
type (
	// open opened the session with this epoch.
	open struct{ epoch uint64 }
	// act was answered with OK in the session with this epoch.
	act struct{ epoch uint64 }
)

// sessions: a newer session fences off every older one.
var sessions = model(uint64(0), func(newest uint64, does any) (bool, uint64) {
	switch does := does.(type) {
	case open:
		return does.epoch > newest, does.epoch
	case act:
		return does.epoch == newest, newest
	}
	return false, newest
})

// The operations on a name that members are ordered for.
type (
	// order was answered with OK and this order.
	order struct{ id string }
	// seeReserved reads that the name is reserved for this order.
	seeReserved struct{ id string }
	// actFor was answered with OK, to the member that this order has started.
	actFor struct{ id string }
)

// nameState is a name: its latest order, and whether that has started a member.
type nameState struct {
	order     string
	isStarted bool
}

// names: a name belongs to its latest order, first as a reservation and then as a member. Nothing in the history says when an
// earlier member ended, only that it has by then.
var names = model(nameState{}, func(name nameState, does any) (bool, nameState) {
	switch does := does.(type) {
	case order:
		return true, nameState{order: does.id}
	case seeReserved:
		return name == nameState{order: does.id}, name
	case actFor:
		return name.order == does.id, nameState{does.id, true}
	}
	return false, name
})

func model[S comparable](initial S, step func(S, any) (bool, S)) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return initial },
		Step: func(state, input, _ any) (bool, any) {
			isLegal, next := step(state.(S), input)
			return isLegal, next
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%T%+v", input, input) },
	}
}
