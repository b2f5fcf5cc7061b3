package mounts

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"osaurus-sandbox/guest"
	"osaurus-sandbox/history/review"
)

// The child that TestKilledWhileAccepting kills gets a folder and the folder of its review.
const victimFolder, victimDir = "OSAURUS_MOUNTS_FOLDER", "OSAURUS_MOUNTS_DIR"

func TestMain(m *testing.M) {
	if folder := os.Getenv(victimFolder); folder != "" {
		acceptAndDie(folder, os.Getenv(victimDir))
	}
	os.Exit(m.Run())
}

// deadly is an upper layer over a folder. The process is killed while it reads the second file, once the first is there.
type deadly struct{ folder string }

func (deadly) List(context.Context) iter.Seq2[review.Entry, error] {
	return func(yield func(review.Entry, error) bool) {
		for _, path := range []string{"a.txt", "b.txt", "c.txt"} {
			if !yield(review.Entry{Path: path, Kind: review.File, Mode: 0o644, Size: 8 << 20}, nil) {
				return
			}
		}
	}
}

func (d deadly) Open(_ context.Context, path string) (io.ReadCloser, error) {
	content := io.Reader(bytes.NewReader(bytes.Repeat([]byte(path[:1]), 8<<20)))
	if _, err := os.Stat(filepath.Join(d.folder, "a.txt")); path == "b.txt" && err == nil {
		content = io.MultiReader(io.LimitReader(content, 4<<20), killer{})
	}
	return io.NopCloser(content), nil
}

// killer kills the process that reads it.
type killer struct{}

func (killer) Read([]byte) (int, error) {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func acceptAndDie(folder, dir string) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		panic(err)
	}
	r := &review.Review{Real: root, Upper: deadly{folder}, Bases: bases{filepath.Join(dir, "bases")}, Journal: filepath.Join(dir, "journal")}
	all, err := r.Compute(context.Background(), review.Query{})
	if err != nil {
		panic(err)
	}
	sel := review.Selection{AcceptConflicts: true}
	for _, c := range all.Changes {
		sel.Picks = append(sel.Picks, review.Pick{Path: c.Path, ID: c.ID})
	}
	_, err = r.Accept(context.Background(), sel)
	panic(err)
}

// A daemon that is killed while it accepts leaves each file old or new, and the next one cleans up, also after a mount
// that was not kept.
func TestKilledWhileAccepting(t *testing.T) {
	r := newRig(t)
	m := Mount{Agent: r.alice.ID, Name: "app", Folder: r.app, At: "/mnt/app", Mode: guest.MountReview}
	dir := r.Mounts.dir(&entry{Mount: m})
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r.write("b.txt", "old\n")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimFolder+"="+r.app, victimDir+"="+dir)
	out, err := cmd.CombinedOutput()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); err == nil || !ok || !status.Signaled() {
		t.Fatalf("it was not killed: %v\n%s", err, out)
	}
	if left, _ := filepath.Glob(r.app + "/.osaurus-*"); len(left) == 0 {
		t.Fatal("it left nothing to clean up")
	}
	if err := r.rows.add(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	r.close()
	r.open()
	r.want("")
	if _, err := os.Stat(dir + "/journal"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the journal: %v", err)
	}
	list, err := os.ReadDir(r.app)
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	if err != nil || strings.Join(names, " ") != "a.txt b.txt sub" {
		t.Errorf("%q, %v", names, err)
	}
	for path, size := range map[string]int64{"a.txt": 8 << 20, "b.txt": 4} {
		if info, err := os.Stat(r.app + "/" + path); err != nil || info.Size() != size {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}
