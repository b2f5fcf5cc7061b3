package launch_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"osaurus-sandbox/guest"
	"osaurus-sandbox/guest/embedded"
	"osaurus-sandbox/guest/guesttest"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/supervisor/launch"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/pack"
	"osaurus-sandbox/vm/qemu"
)

// guests are what must boot: the name, and a pack of it where there is one.
var guests = []struct {
	name string
	pack func(t *testing.T) (pack.Pack, bool)
}{
	{"busybox amd64", func(t *testing.T) (pack.Pack, bool) { return lab.BusyboxPack(t, "amd64"), true }},
	{"busybox arm64", func(t *testing.T) (pack.Pack, bool) { return lab.BusyboxPack(t, "arm64"), true }},
	{"alpine amd64", func(t *testing.T) (pack.Pack, bool) { return lab.AlpinePack(t, "amd64") }},
	{"alpine arm64", func(t *testing.T) (pack.Pack, bool) { return lab.AlpinePack(t, "arm64") }},
}

func TestGuests(t *testing.T) {
	for _, g := range guests {
		t.Run(g.name, func(t *testing.T) {
			p, ok := g.pack(t)
			if !ok {
				return
			}
			console := filepath.Join(t.TempDir(), "console.log")
			g, err := launch.Boot(t.Context(), launch.Spec{
				Driver: &qemu.Driver{}, Image: build(t, p), Name: "test", Hostname: "test",
				CPUs: 2, Memory: 1 << 30, Network: vm.NetworkNAT, ConsoleLog: console,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			info, err := g.Client.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v\n%+v", g.Timings, info)
			if len(info.Warnings) > 0 {
				t.Errorf("the guest warns: %q", info.Warnings)
			}
			guesttest.RunExec(t, func(*testing.T) *guest.Client { return g.Client })
			began := time.Now()
			if err := g.Shutdown(t.Context()); err != nil {
				t.Errorf("shut down: %v", err)
			}
			t.Logf("powered off in %v", time.Since(began))
		})
	}
}

func build(t *testing.T, p pack.Pack) image.Image {
	t.Helper()
	store := image.Store{Dir: t.TempDir(), Init: func(a vm.Arch) ([]byte, error) { return embedded.Guest(string(a)) }}
	i, err := store.Ensure(context.Background(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return i
}
