package main

import (
	"fmt"
	"math"

	"github.com/anishathalye/porcupine"
)

// never is the end of a call without an outcome: it may take effect at any later time, or not at all.
const never = math.MaxInt64

// histories are the operations on the objects of a run: on each task, each request, the sessions of each member, and each name that
// members are ordered for.
type histories struct {
	claims, requests, sessions, names map[string][]porcupine.Operation
}

// begun is a call that has begun.
type begun struct {
	at    event
	epoch uint64
}

// collect reads the operations out of a history.
func collect(events []event) histories {
	all := histories{
		claims:   map[string][]porcupine.Operation{},
		requests: map[string][]porcupine.Operation{},
		sessions: map[string][]porcupine.Operation{},
		names:    map[string][]porcupine.Operation{},
	}
	// Every decision of these requests is recorded. Members also approve their shutdown, which is not.
	judged := map[string]bool{}
	calls := map[call]begun{}
	epochs := map[process]uint64{}
	last := map[process]int64{}
	clients := map[process]int{}
	client := func(of process) int {
		if _, known := clients[of]; !known {
			clients[of] = len(clients)
		}
		return clients[of]
	}
	add := func(to map[string][]porcupine.Operation, object string, from, until int64, e event, does any) {
		operation := porcupine.Operation{ClientId: client(e.process()), Input: does, Call: from, Return: until}
		to[object] = append(to[object], operation)
	}
	// The order of each process that one has started. An order whose answer was lost, or that the coordinator made itself, is first
	// known when someone sees it.
	orders, known := map[process]string{}, map[string]bool{}
	ofOrder := func(name, id string, from int64, e event, does any) {
		if !known[id] {
			add(all.names, "name "+name, 0, e.AtUs, e, order{id})
			known[id] = true
		}
		add(all.names, "name "+name, from, e.AtUs, e, does)
	}
	task := func(id uint64) string { return fmt.Sprintf("task %d", id) }
	request := func(id string) string { return "request " + id }
	for _, e := range events {
		if e.What == "asked" || e.What == "deciding" {
			judged[request(e.RequestID)] = true
		}
		of := e.process()
		began, isKnown := calls[e.call()]
		switch e.What {
		case "opened":
			// When the call began is not recorded, but the process did one thing after the other.
			add(all.sessions, "member "+e.Member, last[of], e.AtUs, e, open{e.Epoch})
			epochs[of] = e.Epoch
		case "sending", "claiming", "completing", "asking", "deciding", "ordering", "acting":
			calls[e.call()] = begun{e, epochs[of]}
		case "sent", "claimed", "completed", "asked":
			if isKnown && !e.Again && began.epoch != 0 && began.epoch == epochs[of] {
				add(all.sessions, "member "+e.Member, began.at.AtUs, e.AtUs, e, act{began.epoch})
			}
			if isKnown && e.What == "claimed" {
				add(all.claims, task(e.TaskID), began.at.AtUs, e.AtUs, e, claim{e.Token})
			}
			if isKnown && e.What == "completed" {
				add(all.claims, task(began.at.TaskID), began.at.AtUs, e.AtUs, e, complete{began.at.Token})
			}
			if !e.Again {
				delete(calls, e.call())
			}
		case "decided":
			if isKnown {
				add(all.requests, request(began.at.RequestID), began.at.AtUs, e.AtUs, e, decide{began.at.Approve})
			}
			delete(calls, e.call())
		case "decide_refused":
			state, tells := map[string]string{
				"ALREADY_DECIDED":   decision(!began.at.Approve),
				"REQUEST_EXPIRED":   "expired",
				"REQUEST_CANCELLED": "cancelled",
			}[e.Reason]
			if isKnown && tells {
				add(all.requests, request(began.at.RequestID), began.at.AtUs, e.AtUs, e, see{state})
			}
			delete(calls, e.call())
		case "ordered":
			if isKnown && !known[e.RequestID] {
				known[e.RequestID] = true
				add(all.names, "name "+began.at.Who, began.at.AtUs, e.AtUs, e, order{e.RequestID})
			}
			delete(calls, e.call())
		case "reserved":
			// From the expiry of an order until its name is free, the name is reserved for no order.
			if e.RequestID != "" {
				ofOrder(e.Who, e.RequestID, e.AskedUs, e, seeReserved{e.RequestID})
			}
		case "began":
			orders[of] = e.RequestID
		case "acted":
			if id := orders[of]; isKnown && id != "" {
				ofOrder(e.Member, id, began.at.AtUs, e, actFor{id})
			}
			delete(calls, e.call())
		case "send_refused", "complete_refused", "order_refused":
			delete(calls, e.call())
		case "settled":
			add(all.requests, request(e.RequestID), last[of], e.AtUs, e, see{e.State})
		case "final_request":
			add(all.requests, request(e.RequestID), e.AtUs, e.AtUs, e, see{e.State})
		case "answer_delivered":
			add(all.requests, request(e.RequestID), 0, e.AtUs, e, see{decision(e.Approve)})
		case "final_task":
			add(all.claims, task(e.TaskID), e.AtUs, e.AtUs, e, seeTask{e.IsCompleted})
		}
		last[of] = e.AtUs
	}
	// What is left has no outcome that is known.
	for _, began := range calls {
		switch began.at.What {
		case "completing":
			add(all.claims, task(began.at.TaskID), began.at.AtUs, never, began.at, mayComplete{began.at.Token})
		case "deciding":
			add(all.requests, request(began.at.RequestID), began.at.AtUs, never, began.at, mayDecide{began.at.Approve})
		}
	}
	for object := range all.requests {
		if !judged[object] {
			delete(all.requests, object)
		}
	}
	return all
}
