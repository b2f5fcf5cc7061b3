package control

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"osaurus-sandbox/config"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/install"
	"osaurus-sandbox/plugins/library"
)

// What a look at hundreds of plugins has found, with a page of reasons for each, is told in
// answers that clients read: all of it, and in order.
func TestToldInAnswers(t *testing.T) {
	for _, many := range []int{0, 1, 200} {
		var reports []install.Report
		for n := range many {
			reports = append(reports, install.Report{
				Plugin: config.PluginID(fmt.Sprint(n)), Problems: []string{"its folder is gone"}, Err: errors.New(strings.Repeat("no such file ", 700)),
			})
		}
		next, answers := 0, 0
		for answer := range told(reports) {
			if answers++; proto.Size(answer) > maxMessage {
				t.Errorf("an answer has %d bytes", proto.Size(answer))
			}
			for _, r := range answer.Reports {
				if r.Plugin != fmt.Sprint(next) || len(r.Problems) != 1 || len(r.Error) < 8<<10 {
					t.Fatalf("report %d is %v", next, r)
				}
				next++
			}
		}
		if next != many || answers == 0 || many < 2 && answers > 1 {
			t.Errorf("%d of %d were told, in %d answers", next, many, answers)
		}
	}
}

// A plugin whose installation failed has given its agent no tools.
func TestToolsOfWhatIsInstalled(t *testing.T) {
	l, err := library.Open(library.Options{Home: config.Home(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	s := installService{service{&Server{Backing: Backing{Library: l}}}}
	for status, want := range map[install.Status]int{install.Ready: 1, install.Broken: 0, install.Installing: 0} {
		p := s.installedProto("alice", install.Record{ID: "word-count", Status: status, Plugin: plugins.Recipe{Tools: []plugins.Tool{{ID: "count"}}}})
		if len(p.Tools) != want {
			t.Errorf("%s: %q", status, p.Tools)
		}
	}
}
