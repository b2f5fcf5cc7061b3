package boot_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/embedded"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/tools/packages/packagestest"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/pack"
	"osaurus-sandbox/vm/qemu"
)

// Paths of the packages below a mirror.
const (
	libgreetFile = "/v3.20/main/x86_64/libgreet-1.0-r0.apk"
	greetFile    = "/v3.20/main/x86_64/greet-1.0-r0.apk"
)

// dead is a mirror that does not answer.
const dead = "http://" + packagestest.ToGuests + ":9"

func greetPackages() []packagestest.Package {
	return []packagestest.Package{
		{Name: "libgreet", Files: map[string]string{"usr/share/greeting": "hello from a package\n"}},
		{Name: "greet", Depends: "libgreet", PostInstall: "#!/bin/sh\necho configured > /etc/greet.conf\n",
			Files: map[string]string{"usr/bin/greet": "#!/bin/sh\ncat /usr/share/greeting /etc/greet.conf\n"}},
	}
}

// alpinePack is the lab's Alpine pack with the repository's key in its root.
func alpinePack(t testing.TB, key string) pack.Pack {
	t.Helper()
	from, ok := lab.AlpinePack(t, "amd64")
	if !ok {
		t.Skip("no Alpine root file system")
	}
	m := from.Manifest
	root := withKey(t, from.Path(m.Root), key)
	dir := t.TempDir()
	for _, f := range []pack.File{m.Kernel, m.Modules} {
		b, err := os.ReadFile(from.Path(f))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f.Name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m.Root.Name = "root.tar"
	if err := os.WriteFile(filepath.Join(dir, m.Root.Name), root, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := pack.Seal(t.Context(), dir, m)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// withKey returns a root file system's archive with one more key that apk trusts.
func withKey(t testing.TB, rootFile, key string) []byte {
	t.Helper()
	f, err := os.Open(rootFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(w, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "etc/apk/keys/" + packagestest.KeyName, Mode: 0o644, Size: int64(len(key))}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, key); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func newBuilder(dir string, mirrors ...config.MirrorURL) boot.ToolboxBuilder {
	return boot.ToolboxBuilder{
		Driver: &qemu.Driver{}, Dir: filepath.Join(dir, "state"), Mirrors: mirrors, Packages: []config.PackageName{"greet"},
		Images: image.Store{Dir: filepath.Join(dir, "images"), Programs: embedded.Programs[vm.Arch]},
	}
}

// TestToolboxBuilder builds after a build with tampered packages and an interrupted one, whose downloads it keeps.
func TestToolboxBuilder(t *testing.T) {
	r := packagestest.NewAPK(t, greetPackages()...)
	p := alpinePack(t, r.PublicKey(t))
	dir := t.TempDir()
	mirror := config.MirrorURL(r.Serve(t, packagestest.ToGuests))
	b := newBuilder(dir, dead, mirror)

	tampered(t, r, b, p)
	bare, missing, err := b.Find(t.Context(), p, nil)
	if err != nil || len(missing) != 1 || missing[0] != "greet" {
		t.Fatalf("after refused packages Find = %v missing, %v", missing, err)
	}
	before := r.Count(libgreetFile)
	interrupted, stop := context.WithCancel(t.Context())
	r.Inspect(func(path string) {
		if path == greetFile {
			timetest.Sleep(15 * time.Second) // meanwhile the first package is written to the builder's disk
			stop()
		}
	})
	if _, err := newBuilder(dir, mirror).Build(interrupted, p, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted build: %v\n%s", err, console(dir))
	}
	r.Inspect(nil)
	if _, missing, err := b.Find(t.Context(), p, nil); err != nil || len(missing) == 0 {
		t.Fatalf("after an interrupted build nothing is missing: %v", err)
	}

	var notes []string
	built, err := b.Build(t.Context(), p, func(e progress.Event) {
		if e.Note != "" {
			notes = append(notes, e.Note)
		}
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, console(dir))
	}
	if n := r.Count(libgreetFile) - before; n != 1 {
		t.Errorf("the first package was downloaded %d times", n)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], dead) {
		t.Errorf("notes are %q, want one about the dead mirror", notes)
	}
	for _, want := range []string{"\ngreet-1.0-r0\n", "\nlibgreet-1.0-r0\n", "\nmusl-"} {
		if list := packageList(t, built); !strings.Contains(list, want) {
			t.Errorf("no %q in the packages %q", want, list)
		}
	}
	if built.Base == bare.Base || built.Initrd != bare.Initrd || built.Digest == bare.Digest {
		t.Errorf("bare %v, with toolbox %v", bare, built)
	}
	if _, err := os.Stat(filepath.Join(dir, "state", "amd64")); !os.IsNotExist(err) {
		t.Errorf("the builder's disk is left: %v", err)
	}
	if found, missing, err := b.Find(t.Context(), p, nil); err != nil || len(missing) != 0 || found.Digest != built.Digest {
		t.Errorf("after the build Find = %v, %v missing, %v", found, missing, err)
	}
	run := bootImage(t, built)
	for command, want := range map[string]string{
		"greet":                "hello from a package\nconfigured\n",
		"ls -A /var/cache/apk": "",
		"ls /etc/apk":          "arch\nkeys\nprotected_paths.d\nrepositories\nworld\n",
		"stat -c %a:%U /bin/busybox /usr/bin/greet": "755:root\n755:root\n",
	} {
		if got := run(command); got != want {
			t.Errorf("%s in the built guest prints %q, want %q", command, got, want)
		}
	}
}

// tampered serves a package with replaced files and a damaged one.
func tampered(t *testing.T, r *packagestest.APK, b boot.ToolboxBuilder, p pack.Pack) {
	t.Helper()
	signed := r.Replace(t, packagestest.Package{Name: "libgreet", Files: map[string]string{"usr/share/greeting": "hello from nobody..\n"}})
	whole := r.File(greetFile)
	damaged := bytes.Clone(whole)
	damaged[len(damaged)-20] ^= 1 // in the compressed files
	r.Put(greetFile, damaged)
	_, err := b.Build(t.Context(), p, nil)
	if fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), "ERROR: libgreet-1.0-r0: ") || !strings.Contains(err.Error(), "ERROR: greet-1.0-r0: ") {
		t.Errorf("Build = %q %v\n%s", fault.KindOf(err), err, console(filepath.Dir(b.Dir)))
	}
	r.Put(libgreetFile, signed)
	r.Put(greetFile, whole)
}

// bootImage boots an image until the test ends and returns a function that runs commands in it.
func bootImage(t *testing.T, i image.Image) (run func(command string) string) {
	t.Helper()
	g, err := boot.Boot(t.Context(), boot.Spec{Driver: &qemu.Driver{}, Image: i,
		Config: vm.Config{Name: "built", CPUs: 2, Memory: 512 << 20, ConsoleLog: filepath.Join(t.TempDir(), "console.log")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(command string) string {
		var out bytes.Buffer
		if _, err := g.Client.Run(t.Context(), engine.Command{Args: strings.Fields(command), Stdout: &out, Stderr: &out}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
}

func packageList(t *testing.T, i image.Image) string {
	t.Helper()
	list, err := os.ReadFile(filepath.Join(filepath.Dir(i.Base), boot.PackageList))
	if err != nil {
		t.Fatal(err)
	}
	return string(list)
}

func console(dir string) string {
	text, _ := os.ReadFile(filepath.Join(dir, "state", "amd64", "console.log"))
	return "console:\n" + string(text)
}
