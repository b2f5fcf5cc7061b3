package mounts

import (
	"bytes"
	"context"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"osaurus-sandbox/guest"
	"osaurus-sandbox/history"
	"osaurus-sandbox/history/review"
)

// The child that TestKilledWhileAccepting kills gets a folder and the folder of its review.
const victimFolder, victimDir, victimKey = "OSAURUS_MOUNTS_FOLDER", "OSAURUS_MOUNTS_DIR", "OSAURUS_MOUNTS_KEY"

func TestMain(m *testing.M) {
	if folder := os.Getenv(victimFolder); folder != "" {
		acceptAndDie(folder, os.Getenv(victimDir))
	}
	os.Exit(m.Run())
}

// fixed is an upper layer of three files.
type fixed struct{}

const fixedSize = 8 << 20

func (fixed) List(context.Context) iter.Seq2[review.Listed, error] {
	return func(yield func(review.Listed, error) bool) {
		for _, path := range []string{"a.txt", "b.txt", "c.txt"} {
			if !yield(review.Listed{Path: path, Entry: history.Entry{Kind: history.File, Mode: 0o644, Size: fixedSize}}, nil) {
				return
			}
		}
	}
}

func (fixed) Open(_ context.Context, path string) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(bytes.Repeat([]byte(path[:1]), fixedSize))), nil
}

// acceptAndDie is killed once the first file is there and the second one is written beside its place.
func acceptAndDie(folder, dir string) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		panic(err)
	}
	kept, err := history.Open(dir, history.Options{Step: func(path string) {
		if path == "b.txt" {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}})
	if err != nil {
		panic(err)
	}
	r := &review.Review{History: kept, Key: os.Getenv(victimKey), Real: root, Upper: fixed{}}
	_, err = r.Accept(context.Background(), review.Selection{AcceptConflicts: true})
	panic(err)
}

// A daemon that is killed while it accepts leaves each file old or new, and the next one finishes, also after a mount
// that was not kept.
func TestKilledWhileAccepting(t *testing.T) {
	r := newRig(t)
	m := Mount{Agent: r.alice.ID, Name: "app", Folder: r.app, At: "/mnt/app", Mode: guest.MountReview}
	r.write("b.txt", "old\n")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimFolder+"="+r.app, victimDir+"="+r.dir.History(), victimKey+"="+m.historyKey())
	out, err := cmd.CombinedOutput()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); err == nil || !ok || !status.Signaled() {
		t.Fatalf("it was not killed: %v\n%s", err, out)
	}
	if left, _ := filepath.Glob(r.app + "/.osaurus-*"); len(left) == 0 {
		t.Fatal("it left nothing to clean up")
	}
	if err := r.insert(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	r.close()
	if err := os.Rename(r.app, r.app+".away"); err != nil { // its disk is not there at first
		t.Fatal(err)
	}
	r.open()
	r.want("")
	r.close()
	if err := os.Rename(r.app+".away", r.app); err != nil {
		t.Fatal(err)
	}
	r.open()
	r.want("")
	if pending, err := r.History.Pending(); err != nil || len(pending) > 0 {
		t.Errorf("it is still pending: %q, %v", pending, err)
	}
	list, err := os.ReadDir(r.app)
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	if err != nil || strings.Join(names, " ") != "a.txt b.txt c.txt sub" {
		t.Errorf("%q, %v", names, err)
	}
	for path, size := range map[string]int64{"a.txt": fixedSize, "b.txt": fixedSize, "c.txt": fixedSize} {
		if info, err := os.Stat(r.app + "/" + path); err != nil || info.Size() != size {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}
