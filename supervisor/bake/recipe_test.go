package bake

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/pack"
)

func TestReleaseBranch(t *testing.T) {
	for version, want := range map[string]string{"3.24.1": "v3.24", "3.20": "v3.20", "3": "", "edge": "", "3.x.1": "", "": "", "../3.2": ""} {
		if got, err := releaseBranch(version); got != want || (err == nil) != (want != "") {
			t.Errorf("releaseBranch(%q) = %q, %v", version, got, err)
		}
	}
}

func TestRefused(t *testing.T) {
	manifest := pack.Manifest{PackageTool: pack.APK, Version: "3.24.1"}
	for name, c := range map[string]struct {
		baker Baker
		edit  func(*pack.Manifest)
	}{
		"an option for a package": {baker: Baker{Packages: []string{"--allow-untrusted"}}},
		"two words":               {baker: Baker{Packages: []string{"git curl"}}},
		"nothing":                 {baker: Baker{Packages: []string{""}}},
		"two lines for a mirror":  {baker: Baker{Mirrors: []string{"http://a\nhttp://b"}}},
		"a pack for apt":          {edit: func(m *pack.Manifest) { m.PackageTool = pack.APT }},
		"no release":              {edit: func(m *pack.Manifest) { m.Version = "edge" }},
	} {
		t.Run(name, func(t *testing.T) {
			m := manifest
			if c.edit != nil {
				c.edit(&m)
			}
			if _, err := c.baker.Bake(t.Context(), pack.Pack{Manifest: m}, nil); fault.KindOf(err) != fault.InvalidArgs {
				t.Errorf("Bake = %v", err)
			}
		})
	}
}

func TestLimitedKeepsTheEnd(t *testing.T) {
	var l limited
	for range 3 {
		if n, err := l.Write([]byte(strings.Repeat("a", maxOutput))); n != maxOutput || err != nil {
			t.Fatal(n, err)
		}
	}
	_, _ = l.Write([]byte("the end"))
	if l.Len() != maxOutput || !strings.HasSuffix(l.String(), "aathe end") {
		t.Errorf("%d bytes are kept, ending in %q", l.Len(), tail(l.String())[maxShown-10:])
	}
}

// TestStoppedWhileItBoots: what earlier tries have downloaded stays where a person stops the
// builder, and goes with a disk that may be why it does not boot.
func TestStoppedWhileItBoots(t *testing.T) {
	for name, stopped := range map[string]bool{"stopped": true, "does not boot": false} {
		b := Baker{Dir: t.TempDir(), Driver: broken{}}
		data := filepath.Join(b.Dir, "bake-"+string(vm.AMD64), "data.ext4")
		if err := os.MkdirAll(filepath.Dir(data), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(data, []byte("downloads"), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		if stopped {
			stop()
		}
		if err := b.bake(ctx, image.Image{Arch: vm.AMD64}, "v3.24", "", nil); err == nil {
			t.Errorf("%s: no error", name)
		}
		stop()
		if _, err := os.Stat(data); (err == nil) != stopped {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// broken is a driver of machines that do not start.
type broken struct{ vm.Driver }

func (broken) New(context.Context, vm.Config) (vm.Machine, error) {
	return nil, fault.Newf(fault.Execution, "start machine", "", "it is broken")
}
