// Command linearizability gives the history of a fault run to Porcupine, a checker that shares no code with this project's own.
//
// It reads the operations on each task, each request, the sessions of each member and each name that members are ordered for, and
// reports every object for which no order of the operations explains all answers.
//
// Usage: linearizability DIRECTORY, where DIRECTORY has the files *.jsonl that `teamwire-chaos run` has written. Exits with 0 if
// every history is linearizable, 1 if one is not, and 2 if it cannot tell.
package main

import (
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// patience bounds the search for an order of the operations on one object. Most take microseconds.
const patience = time.Minute

// shownMax bounds how many operations of an object are shown.
const shownMax = 40

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: linearizability DIRECTORY")
		os.Exit(2)
	}
	events, err := readHistory(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	for _, e := range events {
		if e.What == "may_be_lost" {
			fmt.Println("porcupine: not judged: the store may have lost writes that it had answered")
			return
		}
	}
	verdict := judge(events)
	for _, line := range verdict.lines {
		fmt.Println(line)
	}
	fmt.Printf("porcupine: %d operations on %d tasks, %d requests, the sessions of %d members and %d ordered names; %d not "+
		"linearizable, %d not decided\n", verdict.operations, verdict.tasks, verdict.requests, verdict.members, verdict.names,
		verdict.illegal, verdict.undecided)
	switch {
	case verdict.illegal > 0:
		os.Exit(1)
	case verdict.undecided > 0:
		os.Exit(2)
	}
}

// verdict is what Porcupine says of a history.
type verdict struct {
	operations, tasks, requests, members, names int
	illegal, undecided                          int
	// lines describe the objects whose operations have no legal order.
	lines []string
}

func judge(events []event) verdict {
	all := collect(events)
	found := verdict{tasks: len(all.claims), requests: len(all.requests), members: len(all.sessions), names: len(all.names)}
	found.add("Claims", tasks, all.claims)
	found.add("Decisions", requests, all.requests)
	found.add("Fenced", sessions, all.sessions)
	found.add("OneProcess", names, all.names)
	return found
}

func (v *verdict) add(promise string, model porcupine.Model, objects map[string][]porcupine.Operation) {
	sorted := make([]string, 0, len(objects))
	for name := range objects {
		sorted = append(sorted, name)
	}
	sort.Strings(sorted)
	for _, name := range sorted {
		operations := objects[name]
		v.operations += len(operations)
		switch porcupine.CheckOperationsTimeout(model, operations, patience) {
		case porcupine.Illegal:
			v.illegal++
			v.lines = append(v.lines, describe(promise, name, model, operations)...)
		case porcupine.Unknown:
			v.undecided++
			v.lines = append(v.lines, fmt.Sprintf("%s: %s: no order was found or excluded within %s", promise, name, patience))
		}
	}
}

func describe(promise, name string, model porcupine.Model, operations []porcupine.Operation) []string {
	lines := []string{fmt.Sprintf("BROKEN: %s: %s: no order explains these operations:", promise, name)}
	sort.SliceStable(operations, func(i, j int) bool { return operations[i].Call < operations[j].Call })
	for at, operation := range operations {
		if at == shownMax {
			return append(lines, fmt.Sprintf("  and %d more", len(operations)-shownMax))
		}
		until := fmt.Sprint(operation.Return)
		if operation.Return == never {
			until = "unknown"
		}
		lines = append(lines, fmt.Sprintf("  client %d, %d to %s: %s", operation.ClientId, operation.Call, until,
			model.DescribeOperation(operation.Input, nil)))
	}
	return lines
}
