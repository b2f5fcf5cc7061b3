package debian_test

import (
	"archive/tar"
	"io"
	"os"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/debian"
	"osaurus-sandbox/vm/image/kernel"
	"osaurus-sandbox/vm/image/pack"
)

// entries returns the headers of a pack file's entries.
func entries(t testing.TB, p pack.Pack, f pack.File) map[string]*tar.Header {
	t.Helper()
	all := map[string]*tar.Header{}
	err := p.Walk(t.Context(), f, func(h *tar.Header, _ io.Reader) error {
		all[h.Name] = h
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestBuild(t *testing.T) {
	p := lab.DebianPack(t)
	if err := p.Verify(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := kernel.Check(vm.HostArch(), p.Path(p.Manifest.Kernel)); err != nil {
		t.Error(err)
	}
	root := entries(t, p, p.Manifest.Root)
	for _, name := range []string{"bin", "usr/bin/bash", "usr/bin/python3", "usr/bin/node", "usr/bin/npm", "usr/bin/npx", "usr/lib/node_modules/npm/bin/npm-cli.js", "usr/bin/git", "usr/bin/rg", "usr/bin/ssh", "usr/bin/socat", "sbin"} {
		if root[name] == nil {
			t.Errorf("the root has no %s", name)
		}
	}
	if su := root["usr/bin/su"]; su == nil || su.Mode != 0o4755 || su.Uid != 0 {
		t.Errorf("su is %+v", su)
	}
	hasVsock := false
	for name := range entries(t, p, p.Manifest.Modules) {
		hasVsock = hasVsock || strings.HasPrefix(name, "lib/modules/") && strings.Contains(name, "/vmw_vsock_virtio_transport.ko")
	}
	if !hasVsock {
		t.Error("the modules lack vsock")
	}
	if len(p.Manifest.Origins) < 2 || p.Manifest.Origins[0].SHA256.IsZero() || p.Manifest.PackageTool != pack.APT {
		t.Errorf("the manifest is %+v", p.Manifest)
	}
}

func TestAvailable(t *testing.T) {
	other := map[vm.Arch]vm.Arch{vm.AMD64: vm.ARM64, vm.ARM64: vm.AMD64}[vm.HostArch()]
	machine := map[vm.Arch]string{vm.AMD64: "x86_64", vm.ARM64: "aarch64"}[other]
	if _, err := os.Stat("/proc/sys/fs/binfmt_misc/qemu-" + machine); err == nil {
		t.Skipf("this host runs programs for %s", other)
	}
	if err := debian.Available(other); fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.AdviceOf(err), "qemu-user-static") {
		t.Errorf("Available(%s) = %v, want unavailable with advice", other, err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := debian.Available(vm.HostArch()); fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "mmdebstrap") {
		t.Errorf("Available without tools = %v, want unavailable naming them", err)
	}
}
