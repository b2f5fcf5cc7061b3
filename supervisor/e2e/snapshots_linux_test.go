//go:build !vzstandin

package e2e_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/supervisor/homelock"
	"osaurus-sandbox/vm/qemu"
)

// TestSnapshotOfAGuest freezes the disk of a guest, makes a snapshot while a job runs, changes what an
// agent has installed and written, restores, and moves the agent.
func TestSnapshotOfAGuest(t *testing.T) {
	server, client := serve(t, "none", daemon.Options{Driver: &qemu.Driver{}})
	home := server.Sandbox.Home()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v, advice: %s", err, fault.AdviceOf(err))
		}
	}
	_, err := client.Agents.Create(t.Context(), &controlpb.CreateAgentRequest{Name: "alice"})
	must(err)
	run := func(c *control.Client, script string) string {
		t.Helper()
		return (&gatewayTest{Client: c}).exec(t, control.RunAs{Agent: "alice"}, engine.Command{RoomRoot: true, Args: []string{"sh", "-c", script}})
	}
	run(client, "echo one > /etc/state && echo one > /workspace/agents/alice/state && sync")
	frozenGuest(t, server, func() { run(client, "echo two >> /etc/state && sync") })

	live, before := shares(t, home.DataDisk()), server.Sandbox.Status().StartedAt
	var made *controlpb.Snapshot
	for r, err := range control.Messages(client.Backups.Create(t.Context(), &controlpb.CreateSnapshotRequest{Name: "one"})) {
		must(err)
		made = r.Snapshot
	}
	if info, err := os.Stat(filepath.Join(home.Snapshots(), "one", "data.ext4")); err != nil || info.Size() != 1<<30 || made.GetBytes() > 1<<29 || made.GetBase() == "" {
		t.Errorf("made %v, its disk %v, %v", made, info, err)
	}
	if now := server.Sandbox.Status().StartedAt; now.Equal(before) != live {
		t.Errorf("the guest runs since %v, before since %v; blocks are shared: %t", now, before, live)
	}
	run(client, "echo three > /etc/state && rm /workspace/agents/alice/state && touch /etc/more")
	for _, err := range control.Messages(client.Backups.Restore(t.Context(), &controlpb.RestoreSnapshotRequest{Name: "one"})) {
		_ = err // the daemon may end before the call
	}
	for owned := true; owned; time.Sleep(10 * time.Millisecond) {
		must(t.Context().Err())
		_, owned = homelock.Holder(home)
	}
	ctx, end := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Options{Home: home, Driver: lab.Driver(&qemu.Driver{}), Ready: func(*control.Server) { close(ready) }})
	}()
	defer func() {
		end()
		must(<-ended)
	}()
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	again, err := control.Connect(t.Context(), home, "test")
	must(err)
	defer again.Close()
	if out := run(again, "cat /etc/state /workspace/agents/alice/state; ls /etc/more 2>&1"); !strings.HasPrefix(out, "one\ntwo\none\n") || !strings.Contains(out, "No such file") {
		t.Errorf("restored: %s", out)
	}
	if _, err := os.Stat(filepath.Join(home.Snapshots(), "before-restore", "data.ext4")); err != nil {
		t.Error(err)
	}
	archive, err := control.ReadChunks(again.Backups.Export(t.Context(), &controlpb.ExportAgentRequest{Agent: "alice"}))
	must(err)
	name, err := again.ImportAgent(t.Context(), &controlpb.ImportAgentRequest{Name: "bob"}, archive)
	must(errors.Join(err, archive.Close()))
	moved := (&gatewayTest{Client: again}).exec(t, control.RunAs{Agent: name}, engine.Command{RoomRoot: true, Args: []string{"sh", "-c", "cat /etc/state /workspace/agents/bob/state"}})
	if moved != "one\ntwo\none" {
		t.Errorf("imported: %q", moved)
	}
}

// shares reports whether copies of a file share its blocks.
func shares(t *testing.T, file string) bool {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	_, err = clone.Reflink(f, dir, "probe")
	return err == nil && dir.Remove("probe") == nil
}

// frozenGuest freezes a guest's disk. A write waits until the time is over, although nobody thaws it.
func frozenGuest(t *testing.T, server *control.Server, write func()) {
	t.Helper()
	lease, ok := server.Sandbox.Peek()
	if !ok {
		t.Fatal("no guest runs")
	}
	defer lease.Release()
	guest, can := lease.Guest.(interface {
		Freeze(context.Context, time.Duration) error
		Thaw(context.Context) error
	})
	if !can {
		t.Fatal("the guest cannot freeze its disk")
	}
	if err := guest.Freeze(t.Context(), 30*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := guest.Freeze(t.Context(), time.Second); fault.KindOf(err) != fault.Execution {
		t.Errorf("Freeze of a frozen disk: %v", err)
	}
	if err := guest.Thaw(t.Context()); err != nil {
		t.Errorf("Thaw: %v", err)
	}
	const within = 2 * time.Second
	began := time.Now()
	if err := guest.Freeze(t.Context(), within); err != nil {
		t.Fatal(err)
	}
	write()
	if took := time.Since(began); took < within {
		t.Errorf("the disk was written after %v", took)
	}
	if err := guest.Thaw(t.Context()); fault.KindOf(err) != fault.Timeout {
		t.Errorf("Thaw after its time: %v", err)
	}
}
