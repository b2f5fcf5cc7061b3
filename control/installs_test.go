package control

import (
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/plugins/install"
	"osaurus-sandbox/plugins/library"
)

// A plugin has tools only if its installation succeeded.
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
