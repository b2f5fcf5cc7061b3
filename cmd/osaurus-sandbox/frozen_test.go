package main

import (
	"context"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
)

// testFrozen stops the machine of the session's sandbox. A hundred callers are
// answered all the while, and those who follow the events are told. How soon
// depends on the host: it is shown, and not judged.
func testFrozen(t *testing.T) {
	const (
		callers = 100
		answers = 3 // that each caller has while the machine is stopped
		every   = 500 * time.Millisecond
	)
	// By itself the daemon would end a machine that is silent for long, and what hung on it.
	if code, _, stderr := sandbox(t, "config", "set", "autoRestart=false"); code != 0 {
		t.Fatal(stderr)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*seenWithin)
	defer cancel()
	home, err := config.FindHome()
	if err != nil {
		t.Fatal(err)
	}
	client, err := control.Connect(ctx, home, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	hello, err := client.Hello(ctx)
	if err != nil {
		t.Fatal(err)
	}
	machine := child(t, hello.Pid, "qemu-system")
	events, err := client.Events(ctx, &controlpb.EventsRequest{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()

	var all sync.WaitGroup
	took := make([][]time.Duration, callers)
	began := time.Now()
	if err := syscall.Kill(machine, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(machine, syscall.SIGCONT) // whatever happens
	for i := range callers {
		all.Go(func() {
			for range answers {
				time.Sleep(rand.N(every))
				asked := time.Now()
				if _, err := client.Status(ctx, &controlpb.StatusRequest{}); err != nil {
					t.Errorf("a status, %v after the machine was stopped: %v", time.Since(began), err)
					return
				}
				took[i] = append(took[i], time.Since(asked))
			}
		})
	}
	late := become(t, events, "unresponsive", began)
	if after := time.Since(began); after > seenWithin {
		t.Errorf("its silence was noticed after %v", after)
	}
	all.Wait()
	if err := syscall.Kill(machine, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	become(t, events, "running", began)
	if code, _, stderr := sandbox(t, "config", "set", "autoRestart=true"); code != 0 {
		t.Error(stderr)
	}
	each := slices.Concat(took...)
	slices.Sort(each)
	if len(each) > 0 {
		t.Logf("%d answers, p99 %v; the event came after %v", len(each), each[len(each)*99/100], late)
	}
}

// become waits for an event of a state after a moment and returns how late it came.
func become(t *testing.T, events *connect.ServerStreamForClient[controlpb.EventsResponse], state string, after time.Time) time.Duration {
	t.Helper()
	for events.Receive() {
		if e := events.Msg(); e.Time.AsTime().After(after) && e.Fields["to"] == state {
			return time.Since(e.Time.AsTime())
		}
	}
	t.Fatalf("it never became %s: %v", state, events.Err())
	return 0
}

// child is the process of this name that another has started.
func child(t *testing.T, parent int32, name string) int {
	t.Helper()
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(int(parent)), name).Output()
	if err != nil {
		t.Fatalf("pgrep: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
