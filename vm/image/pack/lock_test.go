package pack_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/vm/image/pack"
)

// holdLock holds a lock until this process is killed.
func holdLock(path string) {
	if _, err := pack.AcquireLock(context.Background(), path, nil); err != nil {
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
	if _, err := pack.AcquireLock(ctx, path, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Acquire of a held lock = %v, want the context's error", err)
	}

	waiting := make(chan string, 1)
	go func() {
		owner := <-waiting
		if !strings.Contains(owner, fmt.Sprint(holder.Process.Pid)) {
			t.Errorf("the owner is %q, want it to name process %d", owner, holder.Process.Pid)
		}
		holder.Process.Kill()
	}()
	l, err := pack.AcquireLock(t.Context(), path, func(owner string) { waiting <- owner })
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
}
