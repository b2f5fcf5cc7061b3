package pack_test

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm/image/pack"
)

// TestMain lets tests start this program as a process to kill.
func TestMain(m *testing.M) {
	if dir := os.Getenv("PACK_STORE"); dir != "" {
		churn(pack.Store{Dir: dir}, os.Getenv("PACK_ARCHIVE"))
	}
	os.Exit(m.Run())
}

// churn adds and removes packs until it is killed.
func churn(s pack.Store, archive string) {
	ctx := context.Background()
	os.Stdout.WriteString("it begins\n")
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
	const kills = 50
	archive := export(t, build(t, pack.Store{Dir: t.TempDir()}, "imported"))
	s := pack.Store{Dir: t.TempDir()}
	amid := 0 // kills that left unfinished work
	for range kills {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "PACK_STORE="+s.Dir, "PACK_ARCHIVE="+archive)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil { // it has started
			t.Fatal(err)
		}
		time.Sleep(rand.N(120 * time.Millisecond))
		cmd.Process.Kill()
		if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
			t.Fatalf("it ended by itself: %v", err)
		}
		if left, _ := filepath.Glob(filepath.Join(s.Dir, ".*.new")); len(left) > 0 {
			amid++
		}
		packs, err := s.List()
		if err != nil {
			t.Fatalf("a pack is not whole: %v", err)
		}
		for _, p := range packs {
			if err := p.Verify(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if amid == 0 {
		t.Errorf("none of %d kills left unfinished work", kills)
	}
	build(t, s, "built")
	if _, err := s.Import(t.Context(), archive, nil); err != nil {
		t.Fatal(err)
	}
	if got := entries(t, s); got != "built imported" {
		t.Errorf("the store has %q", got)
	}
}
