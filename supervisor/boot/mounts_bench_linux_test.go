package boot_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/fs"
)

// mountRounds is beside the first round, which warms up.
const mountRounds = 2

// mountSteps are what a mount and the home on VirtioFS, of one server, are compared with. Each runs in
// an empty cache, the reads in what the writes before them left.
func mountSteps() [][2]string {
	return [][2]string{
		{"write", "dd if=/dev/zero of=big bs=1M count=16 2>/dev/null"},
		{"read", "dd if=big of=/dev/null bs=1M 2>/dev/null"},
		{"create", "mkdir d; i=0; while [ $i -lt 200 ]; do echo $i > d/f$i; i=$((i+1)); done"},
		{"list", "ls -lR d > /dev/null; ls -lR d > /dev/null; find d -size +9 > /dev/null"},
		{"open", "for i in 1 2; do cat d/* > /dev/null; done"},
		{"remove", "rm -r d big"},
	}
}

// compile is a compiler's work on a small tree in C, and scan that of scripts: they list a folder for each
// file, read small files and compute little.
const (
	compile = `export LD_LIBRARY_PATH=/tmp/cc; for f in src/*.c; do o=out/$(basename $f .c)
/tmp/cc/cc1 -quiet -Ih $f -o $o.s && /tmp/cc/as $o.s -o $o.o || exit 1; done
/tmp/cc/ld -r out/*.o -o out/all && rm out/*`
	scan = `for f in src/*; do awk '{ n += length($0); x[$1] = NR } END { for (k in x) print k, x[k], n }' $f h/* > out/$(basename $f).o; done
cat out/*.o > out/all; cksum out/all > /dev/null; rm out/*`
)

const (
	sources, headers = 40, 4
	functions        = 12 // of each source
)

// writeTree writes a small tree in C.
func writeTree(b *testing.B, dir string) {
	b.Helper()
	for i := range headers {
		var text strings.Builder
		for n := range 40 {
			fmt.Fprintf(&text, "#define LIMIT_%d_%d %d /* how much of it there may be */\nstruct node_%[1]d_%[2]d { struct node_%[1]d_%[2]d *next; long value[%[2]d + 1]; };\n", i, n, n)
		}
		write(b, filepath.Join(dir, "h", fmt.Sprintf("part%d.h", i)), text.String())
	}
	for i := range sources {
		text := strings.Builder{}
		for n := range headers {
			fmt.Fprintf(&text, "#include \"part%d.h\"\n", n)
		}
		for n := range functions {
			fmt.Fprintf(&text, `
/* sum_%[1]d_%[2]d adds up what is in a list. */
long sum_%[1]d_%[2]d(struct node_1_%[2]d *list, int most)
{
	long sum = 0;
	for (; list && most > 0; list = list->next, most--) {
		for (int k = 0; k <= %[2]d && k < LIMIT_1_39; k++) {
			if (list->value[k] < 0)
				continue;
			sum += list->value[k] * (k + %[1]d);
		}
	}
	return sum;
}
`, i, n)
		}
		write(b, filepath.Join(dir, "src", fmt.Sprintf("file%d.c", i)), text.String())
	}
	if err := os.MkdirAll(filepath.Join(dir, "out"), 0o755); err != nil {
		b.Fatal(err)
	}
}

// compiler returns an archive of this computer's C compiler, assembler and linker with their libraries, which
// the Debian guest can run.
func compiler(b *testing.B) io.Reader {
	b.Helper()
	files := []string{}
	for _, name := range []string{"cc1", "as", "ld"} {
		path, err := exec.Command("gcc", "-print-prog-name="+name).Output()
		if err != nil {
			b.Skip("this computer has no gcc: ", err)
		}
		program, err := exec.LookPath(strings.TrimSpace(string(path)))
		if err != nil {
			b.Skip("this computer's gcc is not complete: ", err)
		}
		libraries, err := exec.Command("ldd", program).Output()
		if err != nil {
			b.Fatal(err)
		}
		files = append(files, program)
		for _, field := range strings.Fields(string(libraries)) {
			if base := filepath.Base(field); strings.HasPrefix(field, "/") && !strings.HasPrefix(base, "ld-linux") && !strings.HasPrefix(base, "libc.so") {
				files = append(files, field)
			}
		}
	}
	archive, err := exec.Command("tar", append([]string{"-ch", "--transform=s|.*/||"}, files...)...).Output()
	if err != nil {
		b.Fatal(err)
	}
	return bytes.NewReader(archive)
}

// BenchmarkMounts compares a mount with the home on VirtioFS, and work in a reviewed mount with work
// on the data disk.
func BenchmarkMounts(b *testing.B) {
	h := newHome(b, lab.Image(b, lab.DebianPack(b)), vm.OwnershipSubtree)
	h.boot(b)
	ctx, c := context.Background(), h.guest.Client
	const user, uid = config.LinuxUser("agent-bench"), 2100
	home, shared := filepath.Join(h.workspace, "agents/bench"), b.TempDir()
	writeTree(b, filepath.Join(shared, "tree"))
	if err := os.MkdirAll(home, 0o755); err != nil {
		b.Fatal(err)
	}
	if err := h.subtrees.Set(vm.Subtree{Path: "agents/bench", UID: uid, GID: uid}); err != nil {
		b.Fatal(err)
	}
	if _, err := c.EnsureRoom(ctx, engine.RoomConfig{User: user, UID: uid, Home: guest.HomesDir + "/bench", Hostname: "bench"}, ""); err != nil {
		b.Fatal(err)
	}
	for name, dir := range map[config.MountName]string{"direct": b.TempDir(), "review": filepath.Join(shared, "tree")} {
		mode := map[config.MountName]guest.MountMode{"direct": guest.MountWrite, "review": guest.MountReview}[name]
		server, err := fs.New(vm.Share{Path: dir, ReadOnly: mode == guest.MountReview}, fs.Options{UID: uid, Lower: mode == guest.MountReview})
		if err != nil {
			b.Fatal(err)
		}
		defer server.Close()
		m, err := c.Mount(ctx, user, guest.RoomMount{Name: name, Mode: mode}, func(ctx context.Context, s io.ReadWriteCloser) error { return server.Serve(ctx, s) })
		if err != nil {
			b.Fatal(err)
		}
		defer m.Close()
	}
	run := func(script string, stdin io.Reader) {
		exit, err := engine.Run(ctx, c.Room(user), engine.Command{Args: []string{"sh", "-c", script}, Stdin: stdin, Stderr: os.Stderr})
		if err != nil || exit.Code != 0 {
			b.Fatalf("%s: %+v %v", script, exit, err)
		}
	}
	took := func(dir, script string) float64 {
		if exit, err := c.Run(ctx, engine.Command{Args: []string{"sh", "-c", "sync; echo 3 > /proc/sys/vm/drop_caches"}}); err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
		run("cat /tmp/cc/* > /dev/null", nil) // not part of the tree
		began := time.Now()
		run("cd "+dir+" && "+script, nil)
		return time.Since(began).Seconds()
	}
	of := map[string][]float64{}
	run("mkdir /tmp/cc && cd /tmp/cc && tar x", compiler(b))
	run("cp -r /mnt/review /tmp/tree", nil)
	for range mountRounds + 1 {
		for _, step := range mountSteps() {
			of[step[0]+"-mount"] = append(of[step[0]+"-mount"], took("/mnt/direct", step[1]))
			of[step[0]+"-virtiofs"] = append(of[step[0]+"-virtiofs"], took(guest.HomesDir+"/bench", step[1]))
		}
		for name, script := range map[string]string{"compile": compile, "scan": scan} {
			of[name+"-mount"] = append(of[name+"-mount"], took("/mnt/review", script))
			of[name+"-disk"] = append(of[name+"-disk"], took("/tmp/tree", script))
		}
	}
	b.ReportMetric(0, "ns/op")
	median := func(name string) float64 {
		all := of[name][1:]
		slices.Sort(all)
		b.Logf("%s: %.3f s", name, all[len(all)/2])
		return all[len(all)/2]
	}
	for _, step := range mountSteps() {
		if name := step[0]; name == "read" || name == "write" {
			b.ReportMetric(median(name+"-virtiofs")/median(name+"-mount"), name+"-speed/virtiofs")
		} else {
			b.ReportMetric(median(name+"-mount")/median(name+"-virtiofs"), name+"-time/virtiofs")
		}
	}
	for _, name := range []string{"compile", "scan"} {
		b.ReportMetric(median(name+"-mount")/median(name+"-disk"), "review-"+name+"/disk")
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
