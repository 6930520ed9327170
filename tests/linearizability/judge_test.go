package main

import (
	"os"
	"path/filepath"
	"testing"
)

// verdictOf judges the lines of a history.
func verdictOf(t *testing.T, lines string) verdict {
	t.Helper()
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "m1-1.jsonl"), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	events, err := readHistory(directory)
	if err != nil {
		t.Fatal(err)
	}
	return judge(events)
}

func TestOnlyLegalHistoriesPass(t *testing.T) {
	claimed := `{"at_us":1,"member":"m1","process":1,"what":"claiming","op":1}
{"at_us":2,"member":"m1","process":1,"what":"claimed","op":1,"task_id":7,"token":"a"}
`
	claimedAgain := `{"at_us":3,"member":"m2","process":1,"what":"claiming","op":1}
{"at_us":4,"member":"m2","process":1,"what":"claimed","op":1,"task_id":7,"token":"b"}
`
	begins := `{"at_us":5,"member":"m1","process":1,"what":"completing","op":2,"task_id":7,"token":"a"}
`
	ends := `{"at_us":6,"member":"m1","process":1,"what":"completed","op":2}
`
	decides := func(op, approve, at string) string {
		return `{"at_us":` + at + `,"member":"lead","process":` + op + `,"what":"deciding","op":1,"request_id":"r","approve":` + approve + "}\n"
	}
	decided := func(op, at string) string {
		return `{"at_us":` + at + `,"member":"lead","process":` + op + `,"what":"decided","op":1,"replayed":false}` + "\n"
	}
	opened := func(process, epoch, at string) string {
		return `{"at_us":` + at + `,"member":"m1","process":` + process + `,"what":"opened","epoch":` + epoch + "}\n"
	}
	sends := func(process, from, until string) string {
		return `{"at_us":` + from + `,"member":"m1","process":` + process + `,"what":"sending","op":9,"to":"m2","content":"x"}
{"at_us":` + until + `,"member":"m1","process":` + process + `,"what":"sent","op":9,"message_id":"i","recipients":["m2"],"again":false}` + "\n"
	}
	orders := func(id, from, until string) string {
		return `{"at_us":` + from + `,"member":"lead","process":4,"what":"ordering","op":1,"who":"o1"}
{"at_us":` + until + `,"member":"lead","process":4,"what":"ordered","op":1,"request_id":"` + id + `","expires_us":99}` + "\n"
	}
	reserved := func(id, from, until string) string {
		return `{"at_us":` + until + `,"member":"lead","process":5,"what":"reserved","who":"o1","request_id":"` + id + `","asked_us":` + from + "}\n"
	}
	acts := func(process, id, from, until string) string {
		return `{"at_us":` + from + `,"member":"o1","process":` + process + `,"what":"began","request_id":"` + id + `"}
{"at_us":` + from + `,"member":"o1","process":` + process + `,"what":"acting","op":1}
{"at_us":` + until + `,"member":"o1","process":` + process + `,"what":"acted","op":1}` + "\n"
	}
	for name, is := range map[string]struct {
		lines   string
		illegal int
	}{
		"a claimed task is completed":                      {claimed + begins + ends, 0},
		"an older claim completes":                         {claimed + claimedAgain + begins + ends, 1},
		"a completion may have come before another claim":  {claimed + begins + claimedAgain, 0},
		"a completed task is claimed":                      {claimed + begins + ends + `{"at_us":7,"member":"m2","process":1,"what":"claiming","op":1}` + "\n" + `{"at_us":8,"member":"m2","process":1,"what":"claimed","op":1,"task_id":7,"token":"b"}` + "\n", 1},
		"a completed task is not completed in the end":     {claimed + begins + ends + `{"at_us":9,"member":"supervisor","process":1,"what":"final_task","task_id":7,"is_completed":false}` + "\n", 1},
		"a request is decided":                             {decides("1", "true", "1") + decided("1", "2"), 0},
		"a request is decided twice":                       {decides("1", "true", "1") + decides("2", "false", "1") + decided("1", "2") + decided("2", "3"), 1},
		"a decision of unknown outcome is seen":            {decides("1", "true", "1") + `{"at_us":5,"member":"supervisor","process":1,"what":"final_request","request_id":"r","state":"approved"}` + "\n", 0},
		"a decision that no one made is seen":              {decides("1", "true", "1") + `{"at_us":5,"member":"supervisor","process":1,"what":"final_request","request_id":"r","state":"rejected"}` + "\n", 1},
		"a shutdown was approved":                          {`{"at_us":5,"member":"supervisor","process":1,"what":"final_request","request_id":"r","state":"approved"}` + "\n", 0},
		"an expired request was approved":                  {`{"at_us":1,"member":"m1","process":1,"what":"settled","request_id":"r","state":"expired"}` + "\n" + decides("1", "true", "2") + decided("1", "3"), 1},
		"a session acts":                                   {opened("1", "1", "1") + sends("1", "2", "3"), 0},
		"a fenced session acts":                            {opened("1", "1", "1") + opened("2", "2", "2") + sends("1", "3", "4"), 1},
		"a session acts while another one opens":           {opened("1", "1", "1") + sends("1", "2", "5") + opened("2", "2", "3"), 0},
		"a name is reserved, used, and ordered again":      {orders("a", "1", "2") + reserved("a", "3", "4") + acts("7", "a", "5", "6") + orders("b", "7", "8") + acts("8", "b", "9", "10"), 0},
		"a member acts whose name was ordered again":       {orders("a", "1", "2") + orders("b", "3", "4") + acts("7", "a", "5", "6"), 1},
		"a member acts while its name is ordered again":    {orders("a", "1", "2") + orders("b", "4", "6") + acts("7", "a", "3", "5"), 0},
		"a name is reserved for an order that has started": {orders("a", "1", "2") + acts("7", "a", "3", "4") + reserved("a", "5", "6"), 1},
		"a name is reserved for an earlier order":          {orders("a", "1", "2") + orders("b", "3", "4") + reserved("a", "5", "6"), 1},
		"a name is reserved for an order that has expired": {orders("a", "1", "2") + reserved("", "3", "4") + orders("b", "5", "6"), 0},
		"members are cut off":                              {`{"at_us":5,"member":"supervisor","process":1,"what":"cut_off","members":["a"]}` + "\n", 0},
		"an order whose answer was lost is seen":           {reserved("a", "3", "4") + acts("7", "a", "5", "6"), 0},
	} {
		if found := verdictOf(t, is.lines); found.illegal != is.illegal || found.undecided != 0 {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

func TestAHistoryThatCannotBeReadIsRefused(t *testing.T) {
	if _, err := readHistory(t.TempDir()); err == nil {
		t.Error("an empty directory is read as a history")
	}
}
