package sources_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/alpine"
	"osaurus-sandbox/vm/image/debian"
	"osaurus-sandbox/vm/image/fetch"
	"osaurus-sandbox/vm/image/pack"
	"osaurus-sandbox/vm/image/sources"
)

// newSources returns sources with Alpine's host at a URL. The text "good" is pinned instead
// of a release.
func newSources(t testing.TB, url string, transport http.RoundTripper) *sources.Sources {
	t.Helper()
	s := sources.New(filepath.Join(t.TempDir(), "packs"), filepath.Join(t.TempDir(), "downloads"))
	s.Client.Transport, s.Client.Pause = transport, time.Millisecond
	s.Pinned = func(arch vm.Arch) (alpine.Pins, error) {
		return alpine.Pins{
			Version: "0.0.1", Arch: arch,
			ISO:  fetch.File{URL: url + "/virt.iso", Size: 4, SHA256: sha256.Sum256([]byte("good"))},
			Root: fetch.File{URL: url + "/root.tar.gz", Size: 4, SHA256: sha256.Sum256([]byte("good"))},
		}, nil
	}
	return s
}

// add adds a small pack to the store.
func add(t testing.TB, s pack.Store, name, distribution string) pack.Pack {
	t.Helper()
	p, err := s.Build(t.Context(), name, nil, func(_ context.Context, dir string) (pack.Manifest, error) {
		kernel := make([]byte, 4096)
		if vm.HostArch() == vm.ARM64 {
			copy(kernel[0x38:], "ARM\x64")
		} else {
			kernel[0x1fe], kernel[0x1ff] = 0x55, 0xaa
			copy(kernel[0x202:], "HdrS")
		}
		m := pack.Manifest{
			Distribution: distribution, Arch: vm.HostArch(), PackageTool: pack.APT,
			Kernel: pack.File{Name: "kernel"}, Modules: pack.File{Name: "modules"}, Root: pack.File{Name: "root"},
		}
		return m, errors.Join(
			os.WriteFile(filepath.Join(dir, "kernel"), kernel, 0o644),
			os.WriteFile(filepath.Join(dir, "modules"), []byte(name), 0o644),
			os.WriteFile(filepath.Join(dir, "root"), []byte("r"), 0o644))
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const nobody = "https://host.invalid"

func TestAutoUsesExistingPack(t *testing.T) {
	var s *sources.Sources
	for _, distribution := range []string{sources.Debian, "ubuntu"} {
		s = newSources(t, nobody, nil)
		add(t, s.Store, distribution+"-x", distribution)
		choice, err := s.Get(t.Context(), sources.Auto, vm.HostArch(), nil)
		if err != nil || choice.Pack.Manifest.Name != distribution+"-x" || choice.Reason == "" {
			t.Errorf("with a pack of %s: %+v, %v", distribution, choice, err)
		}
	}
	pins, _ := s.Pinned(vm.HostArch())
	add(t, s.Store, pins.Name(), sources.Alpine)
	choice, err := s.Get(t.Context(), sources.Auto, vm.HostArch(), nil)
	if err != nil || choice.Pack.Manifest.Name != pins.Name() || choice.Reason != "" {
		t.Errorf("with both: %+v, %v", choice, err)
	}
}

func TestAutoFallsBackIfUnreachable(t *testing.T) {
	name, err := debian.Name(vm.HostArch())
	if err != nil {
		t.Fatal(err)
	}
	s := newSources(t, nobody, nil)
	var noted string
	choice, err := s.Get(t.Context(), sources.Auto, vm.HostArch(), func(e progress.Event) {
		if e.Note != "" {
			noted = e.Note
			// Another program has just made it. Making it here would take a minute.
			add(t, s.Store, name, sources.Debian)
		}
	})
	if err != nil || choice.Pack.Manifest.Name != name {
		t.Fatalf("%+v, %v", choice, err)
	}
	if choice.Reason != noted || !strings.Contains(noted, "cannot be reached") || strings.Contains(noted, "host.invalid") {
		t.Errorf("the reason is %q, told was %q", choice.Reason, noted)
	}

	t.Setenv("PATH", t.TempDir()) // so that this host cannot make one
	_, err = newSources(t, nobody, nil).Get(t.Context(), sources.Auto, vm.HostArch(), nil)
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.AdviceOf(err), "mmdebstrap") || !strings.Contains(fault.AdviceOf(err), "pack import") {
		t.Errorf("without tools: %v, advice %q", err, fault.AdviceOf(err))
	}
}

func TestAutoNeverFallsBackAfterAnAnswer(t *testing.T) {
	for what, h := range map[string]http.HandlerFunc{
		"a bad digest": func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("evil")) },
		"not found":    http.NotFound,
		"an error":     func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) },
	} {
		server := httptest.NewTLSServer(h)
		defer server.Close()
		s := newSources(t, server.URL, server.Client().Transport)
		choice, err := s.Get(t.Context(), sources.Auto, vm.HostArch(), func(e progress.Event) {
			if e.Note != "" {
				t.Errorf("%s: it says %q", what, e.Note)
			}
		})
		if err == nil || fetch.Unreachable(err) {
			t.Errorf("%s: %+v, %v", what, choice, err)
		}
		if packs, _ := s.Store.List(); len(packs) != 0 {
			t.Errorf("%s: the store has %d packs", what, len(packs))
		}
	}
}

func TestNamesAndPaths(t *testing.T) {
	s := newSources(t, nobody, nil)
	other := pack.Store{Dir: t.TempDir()}
	p := add(t, other, "mine", "debian")
	archive := filepath.Join(t.TempDir(), "mine.tar.zst")
	if err := pack.Export(t.Context(), p, archive, nil); err != nil {
		t.Fatal(err)
	}
	folder, err := s.Get(t.Context(), p.Dir, vm.HostArch(), nil)
	if err != nil || folder.Pack.Dir != p.Dir {
		t.Errorf("a folder: %+v, %v", folder, err)
	}
	if _, err := s.Get(t.Context(), "mine", vm.HostArch(), nil); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a name that is not there: %v", err)
	}
	imported, err := s.Get(t.Context(), archive, vm.HostArch(), nil)
	if err != nil || filepath.Dir(imported.Pack.Dir) != s.Store.Dir {
		t.Errorf("an archive: %+v, %v", imported, err)
	}
	if named, err := s.Get(t.Context(), "mine", vm.HostArch(), nil); err != nil || named.Pack.Digest() != p.Digest() {
		t.Errorf("a name: %+v, %v", named, err)
	}
	otherArch := map[vm.Arch]vm.Arch{vm.AMD64: vm.ARM64, vm.ARM64: vm.AMD64}[vm.HostArch()]
	if _, err := s.Get(t.Context(), "mine", otherArch, nil); fault.KindOf(err) != fault.InvalidArgs || fault.AdviceOf(err) == "" {
		t.Errorf("the other architecture: %v", err)
	}
	for _, path := range []string{"/nowhere/at/all", "./nothing", "Mine"} {
		if _, err := s.Get(t.Context(), path, vm.HostArch(), nil); fault.KindOf(err) != fault.NotFound || fault.AdviceOf(err) == "" {
			t.Errorf("%s: %v (%s)", path, err, fault.KindOf(err))
		}
	}
}
