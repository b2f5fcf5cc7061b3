package bake_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/embedded"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/bake"
	"osaurus-sandbox/supervisor/launch"
	"osaurus-sandbox/tools/packages/packagestest"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image"
	"osaurus-sandbox/vm/image/pack"
	"osaurus-sandbox/vm/qemu"
)

// Where the packages are below a mirror.
const (
	libgreet = "/v3.20/main/x86_64/libgreet-1.0-r0.apk"
	greet    = "/v3.20/main/x86_64/greet-1.0-r0.apk"
)

// dead is a mirror that nobody answers at.
const dead = "http://" + packagestest.ToGuests + ":9"

func packages() []packagestest.Package {
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

// withKey is a root file system's archive with one more key that apk trusts.
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

func newBaker(dir string, mirrors ...string) bake.Baker {
	return bake.Baker{
		Driver: &qemu.Driver{}, Dir: filepath.Join(dir, "state"), Mirrors: mirrors, Packages: []string{"greet"},
		Images: image.Store{Dir: filepath.Join(dir, "images"), Programs: embedded.Programs[vm.Arch]},
	}
}

// TestBake is the life of one baker: it is sold what nobody signed, killed, and done
// at last. Each bake is a machine, so each shows what it can.
func TestBake(t *testing.T) {
	r := packagestest.NewAPK(t, packages()...)
	p := alpinePack(t, r.PublicKey(t))
	dir := t.TempDir()
	mirror := r.Serve(t, packagestest.ToGuests)
	b := newBaker(dir, dead, mirror)

	tampered(t, r, b, p)
	bare, missing, err := b.Find(t.Context(), p, nil)
	if err != nil || len(missing) != 1 || missing[0] != "greet" {
		t.Fatalf("what was refused passes for baked: Find = %v missing, %v", missing, err)
	}
	killed(t, r, dir, p, mirror)
	if _, missing, err := b.Find(t.Context(), p, nil); err != nil || len(missing) == 0 {
		t.Fatalf("a killed bake passes for done: %v", err)
	}

	before := r.Count(libgreet)
	var notes []string
	baked, err := b.Bake(t.Context(), p, func(e progress.Event) {
		if e.Note != "" {
			notes = append(notes, e.Note)
		}
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, console(dir))
	}
	if again := r.Count(libgreet) - before; again != 0 {
		t.Errorf("what the killed baker had was downloaded %d times more", again)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], dead) {
		t.Errorf("notes are %q, want one about the dead mirror", notes)
	}
	for _, want := range []string{"\ngreet-1.0-r0\n", "\nlibgreet-1.0-r0\n", "\nmusl-"} {
		if list := packageList(t, baked); !strings.Contains(list, want) {
			t.Errorf("no %q in the packages %q", want, list)
		}
	}
	if baked.Base == bare.Base || baked.Initrd != bare.Initrd || baked.Digest == bare.Digest {
		t.Errorf("bare %v, baked %v", bare, baked)
	}
	if _, err := os.Stat(filepath.Join(dir, "state", "bake-amd64")); !os.IsNotExist(err) {
		t.Errorf("the builder's disk is left: %v", err)
	}
	if found, missing, err := b.Find(t.Context(), p, nil); err != nil || len(missing) != 0 || found.Digest != baked.Digest {
		t.Errorf("after the bake Find = %v, %v missing, %v", found, missing, err)
	}
	run := boot(t, baked)
	for command, want := range map[string]string{
		"greet":                "hello from a package\nconfigured\n",
		"ls -A /var/cache/apk": "",
		"ls /etc/apk":          "arch\nkeys\nprotected_paths.d\nrepositories\nworld\n",
		"stat -c %a:%U /bin/busybox /usr/bin/greet": "755:root\n755:root\n",
	} {
		if got := run(command); got != want {
			t.Errorf("%s in the baked guest prints %q, want %q", command, got, want)
		}
	}
}

// tampered has a baker get packages whose files are not those that were signed:
// one is made by somebody else, one has changed on its way.
func tampered(t *testing.T, r *packagestest.APK, b bake.Baker, p pack.Pack) {
	t.Helper()
	signed := r.Replace(t, packagestest.Package{Name: "libgreet", Files: map[string]string{"usr/share/greeting": "hello from nobody..\n"}})
	whole := r.File(greet)
	damaged := bytes.Clone(whole)
	damaged[len(damaged)-20] ^= 1 // in the compressed files
	r.Put(greet, damaged)
	_, err := b.Bake(t.Context(), p, nil)
	if fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), "ERROR: libgreet-1.0-r0: ") || !strings.Contains(err.Error(), "ERROR: greet-1.0-r0: ") {
		t.Errorf("Bake = %q %v\n%s", fault.KindOf(err), err, console(filepath.Dir(b.Dir)))
	}
	r.Put(libgreet, signed)
	r.Put(greet, whole)
}

// commit is more than a guest takes to have a file's name on its disk when it has the file's content
// there: it syncs every two seconds.
const commit = 5 * time.Second

// killed kills a baker while apk downloads the second package.
func killed(t *testing.T, r *packagestest.APK, dir string, p pack.Pack, mirror string) {
	t.Helper()
	before := r.Count(libgreet)
	second := make(chan struct{}, 1)
	release := make(chan struct{})
	r.Inspect(func(path string) {
		if path == greet {
			select {
			case second <- struct{}{}:
			default:
			}
			<-release
		}
	})
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), bakerEnv+"="+strings.Join([]string{dir, p.Dir, mirror}, "\n"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-second:
	case err := <-ended:
		t.Fatalf("the baker ended before: %v\n%s", err, out.Bytes())
	case <-time.After(3 * time.Minute):
		t.Fatalf("the second package was never asked for\n%s", console(dir))
	}
	awaitOnDisk(t, filepath.Join(dir, "state", "bake-amd64", "data.ext4"), r.File(libgreet))
	timetest.Sleep(commit)
	_ = cmd.Process.Kill()
	<-ended
	r.Inspect(nil)
	close(release)
	if got := r.Count(libgreet) - before; got != 1 {
		t.Fatalf("the first package was asked for %d times before the kill", got)
	}
}

// boot boots an image for the test's time and returns what runs commands in it.
func boot(t *testing.T, i image.Image) (run func(command string) string) {
	t.Helper()
	g, err := launch.Boot(t.Context(), launch.Spec{Driver: &qemu.Driver{}, Image: i, Name: "baked", CPUs: 2, Memory: 512 << 20,
		ConsoleLog: filepath.Join(t.TempDir(), "console.log")})
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
	list, err := os.ReadFile(filepath.Join(filepath.Dir(i.Base), bake.PackagesName))
	if err != nil {
		t.Fatal(err)
	}
	return string(list)
}

func console(dir string) string {
	text, _ := os.ReadFile(filepath.Join(dir, "state", "bake-amd64", "console.log"))
	return "console:\n" + string(text)
}

// awaitOnDisk waits until the builder's disk holds a file, and its name: the
// builder writes that in the same go.
func awaitOnDisk(t *testing.T, disk string, file []byte) {
	t.Helper()
	const settled = time.Second
	found := false
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		info, err := os.Stat(disk)
		if err != nil {
			t.Fatal(err)
		}
		found = found || holds(t, disk, file[:min(len(file), 512)])
		if found && time.Since(info.ModTime()) > settled {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("what was downloaded is not on the builder's disk (its data: %v)", found)
		}
	}
}

// holds reports whether a sparse file has some bytes somewhere.
func holds(t *testing.T, path string, want []byte) bool {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for end := int64(0); ; {
		start, err := unix.Seek(int(f.Fd()), end, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return false
		}
		if err == nil {
			end, err = unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE)
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(io.NewSectionReader(f, start, end-start))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, want) {
			return true
		}
	}
}

const bakerEnv = "OSAURUS_TEST_BAKER"

// TestMain is also the baker that TestBake kills.
func TestMain(m *testing.M) {
	if words := strings.Split(os.Getenv(bakerEnv), "\n"); len(words) == 3 {
		p, err := pack.Open(words[1])
		if err == nil {
			_, err = newBaker(words[0], words[2]).Bake(context.Background(), p, nil)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
