package plugins_test

import (
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/plugins"
)

// The examples have no findings, and their files are named by their ids.
func TestGallery(t *testing.T) {
	files, err := filepath.Glob("examples/*.json")
	if err != nil || len(files) != 8 {
		t.Fatalf("of eight examples there are %q, %v", files, err)
	}
	for _, file := range files {
		text := readFile(t, file)
		for _, f := range plugins.Lint(text) {
			t.Errorf("%s:%v", file, f)
		}
		r := parse(t, string(text))
		if id, err := r.ID(); err != nil || string(id) != strings.TrimSuffix(filepath.Base(file), ".json") {
			t.Errorf("%s has the id %q, %v", file, id, err)
		}
		if r.Permissions.Network == plugins.NetworkUnsaid {
			t.Errorf("%s does not say whether it needs the network", file)
		}
	}
}
