package boot

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
)

func TestReleaseNumber(t *testing.T) {
	for version, want := range map[string]string{"3.24.1": "3.24", "3.20": "3.20", "3": "", "edge": "", "3.x.1": "", "": "", "../3.2": ""} {
		if got := releaseNumber.FindString(version); got != want {
			t.Errorf("%q is of release %q", version, got)
		}
	}
}

// TestFailedBoot: the builder's disk survives a cancelled build, but not a failed boot,
// whose reason it may be.
func TestFailedBoot(t *testing.T) {
	for name, stopped := range map[string]bool{"stopped": true, "does not boot": false} {
		b := ToolboxBuilder{Dir: t.TempDir(), Driver: broken{}}
		data := filepath.Join(b.Dir, string(vm.AMD64), "data.ext4")
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
		if err := b.build(ctx, image.Image{Arch: vm.AMD64}, "v3.24", "", nil); err == nil {
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
