package pack_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm/image/pack"
)

// TestMain lets tests start this program as a process to kill.
func TestMain(m *testing.M) {
	if path := os.Getenv("LOCK_HOLDER"); path != "" {
		holdLock(path)
	}
	if dir := os.Getenv("PACK_STORE"); dir != "" {
		churn(pack.Store{Dir: dir}, os.Getenv("PACK_ARCHIVE"))
	}
	os.Exit(m.Run())
}

func churn(s pack.Store, archive string) {
	ctx := context.Background()
	fmt.Println("it begins")
	for {
		for _, step := range []func() error{
			func() error { _, err := s.Build(ctx, "built", nil, fill); return err },
			func() error { return s.Remove(ctx, "built") },
			func() error { _, err := s.Import(ctx, archive, nil); return err },
			func() error { return s.Remove(ctx, "imported") },
		} {
			if err := step(); err != nil && fault.KindOf(err) != fault.NotFound {
				panic(err)
			}
		}
	}
}

func TestKilledAtAnyMoment(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "imported.tar.zst")
	if err := pack.Export(t.Context(), build(t, pack.Store{Dir: t.TempDir()}, "imported"), archive, nil); err != nil {
		t.Fatal(err)
	}
	const least, most = 50, 500 // kills: until half of the least were amid the work
	s := pack.Store{Dir: t.TempDir()}
	// A round of the child's begins and ends with nothing there.
	began := time.Now()
	build(t, s, "built")
	if _, err := s.Import(t.Context(), archive, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"built", "imported"} {
		if err := s.Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	span := max(120*time.Millisecond, time.Since(began)*3/2)
	whole, amid := 0, map[time.Time]bool{} // when each work that was left unfinished was last written to
	kills := 0
	for ; kills < least || len(amid) < least/2 || whole == 0; kills++ {
		if kills == most {
			t.Fatalf("%d of %d were killed amid their work; %d whole packs were seen between the kills", len(amid), kills, whole)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "PACK_STORE="+s.Dir, "PACK_ARCHIVE="+archive)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil { // a busy host takes longer to start it than it lives
			t.Fatal(err)
		}
		time.Sleep(rand.N(span))
		cmd.Process.Kill()
		if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
			t.Fatalf("it ended by itself: %v", err)
		}
		for _, name := range []string{".built.making", ".imported.making"} {
			if folder, err := os.Stat(filepath.Join(s.Dir, name)); err == nil {
				amid[folder.ModTime()] = true
			}
		}
		packs, err := s.List()
		if err != nil {
			t.Fatalf("a pack is not whole: %v", err)
		}
		for _, p := range packs {
			if err := p.Verify(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			whole++
		}
	}
	t.Logf("%d of %d were killed amid their work; %d whole packs were seen between the kills", len(amid), kills, whole)
	build(t, s, "built")
	if _, err := s.Import(t.Context(), archive, nil); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); name != "built" && name != "imported" && !strings.HasSuffix(name, ".lock") {
			t.Errorf("%s is left", name)
		}
	}
}
