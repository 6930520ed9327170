package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
)

// event is a line of a history, as `tests/chaos/src/history.rs` writes it. A field that an event does not have is zero.
type event struct {
	AtUs    int64  `json:"at_us"`
	Member  string `json:"member"`
	Process uint32 `json:"process"`
	What    string `json:"what"`

	Op          uint64 `json:"op"`
	Who         string `json:"who"`
	AskedUs     int64  `json:"asked_us"`
	Epoch       uint64 `json:"epoch"`
	TaskID      uint64 `json:"task_id"`
	Token       string `json:"token"`
	RequestID   string `json:"request_id"`
	Approve     bool   `json:"approve"`
	State       string `json:"state"`
	Reason      string `json:"reason"`
	Again       bool   `json:"again"`
	IsCompleted bool   `json:"is_completed"`
}

// process identifies the process of a member.
type process struct {
	member string
	number uint32
}

// call identifies a call of a process.
type call struct {
	process process
	op      uint64
}

func (e event) process() process { return process{e.Member, e.Process} }

func (e event) call() call { return call{e.process(), e.Op} }

// readHistory reads all files of a directory as one history, ordered by time.
func readHistory(directory string) ([]event, error) {
	files, err := filepath.Glob(filepath.Join(directory, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no history: it has no file *.jsonl", directory)
	}
	var events []event
	for _, file := range files {
		read, err := readFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		events = append(events, read...)
	}
	sort.SliceStable(events, func(i, j int) bool { return events[i].AtUs < events[j].AtUs })
	return events, nil
}

func readFile(name string) ([]event, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var events []event
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var read event
		if err := json.Unmarshal(lines.Bytes(), &read); err != nil {
			return nil, fmt.Errorf("%w: %s", err, lines.Text())
		}
		events = append(events, read)
	}
	return events, lines.Err()
}
