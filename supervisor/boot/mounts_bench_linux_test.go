package boot_test

import (
	"context"
	"fmt"
	"io"
	"os"
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

// build stands for a compiler: it reads many small files and writes one for each.
const build = `for f in src/*; do awk '{ n += length($0); x[$1] = NR } END { for (k in x) print k, x[k], n }' $f h/* > out/${f#src/}.o; done
cat out/*.o > out/all; cksum out/all > /dev/null; rm out/*`

// BenchmarkMounts compares a mount with the home on VirtioFS, and work in a reviewed mount with work
// on the data disk.
func BenchmarkMounts(b *testing.B) {
	h := newHome(b, lab.Image(b, lab.DebianPack(b)), vm.OwnershipSubtree)
	h.boot(b)
	ctx, c := context.Background(), h.guest.Client
	const user, uid = config.LinuxUser("agent-bench"), 2100
	home, shared := filepath.Join(h.workspace, "agents/bench"), b.TempDir()
	for i := range 60 {
		line := strings.Repeat(fmt.Sprintf("name%d int value = 17; /* what a source has */\n", i), 200)
		for _, dir := range []string{"src", "h"} {
			if i < 4 || dir == "src" {
				write(b, filepath.Join(shared, "tree", dir, fmt.Sprint("f", i)), line)
			}
		}
	}
	if err := os.MkdirAll(filepath.Join(shared, "tree/out"), 0o755); err != nil {
		b.Fatal(err)
	}
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
	took := func(dir, script string) float64 {
		if exit, err := c.Run(ctx, engine.Command{Args: []string{"sh", "-c", "sync; echo 3 > /proc/sys/vm/drop_caches"}}); err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
		began := time.Now()
		exit, err := engine.Run(ctx, c.Room(user), engine.Command{Args: []string{"sh", "-c", "cd " + dir + " && " + script}})
		if err != nil || exit.Code != 0 {
			b.Fatalf("%s: %+v %v", script, exit, err)
		}
		return time.Since(began).Seconds()
	}
	of := map[string][]float64{}
	took("/tmp", "cp -r /mnt/review tree")
	for range mountRounds + 1 {
		for _, step := range mountSteps() {
			of[step[0]+"-mount"] = append(of[step[0]+"-mount"], took("/mnt/direct", step[1]))
			of[step[0]+"-virtiofs"] = append(of[step[0]+"-virtiofs"], took(guest.HomesDir+"/bench", step[1]))
		}
		of["build-mount"] = append(of["build-mount"], took("/mnt/review", build))
		of["build-disk"] = append(of["build-disk"], took("/tmp/tree", build))
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
	b.ReportMetric(median("build-mount")/median("build-disk"), "review-build/disk")
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
