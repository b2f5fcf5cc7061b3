package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestMain holds a lock until it is killed, for TestLockWaitsForAnotherProcess.
func TestMain(m *testing.M) {
	path := os.Getenv("LOCK_HOLDER")
	if path == "" {
		os.Exit(m.Run())
	}
	if _, err := Lock(context.Background(), path, nil); err != nil {
		panic(err)
	}
	fmt.Println("held")
	time.Sleep(time.Minute)
}

func TestLockWaitsForAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks", "x.lock")
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), "LOCK_HOLDER="+path)
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer holder.Wait()
	defer holder.Process.Kill()
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := Lock(ctx, path, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Acquire of a held lock = %v, want the context's error", err)
	}

	unlock, err := Lock(t.Context(), path, func() { go holder.Process.Kill() })
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
