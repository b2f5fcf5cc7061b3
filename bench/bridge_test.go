//go:build linux

package bench_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/bridge/bridgetest"
	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/disk"
	"osaurus-sandbox/vm/qemu"
)

const (
	askTurns   = 5 // of each side
	askSeconds = 2
	askRounds  = 8    // single requests and programs per turn
	rawPort    = 1999 // as bench/ask has it
	shimPath   = "/usr/local/bin/osaurus-host"
)

// BenchmarkBridge compares a request of an agent, through the relay and past
// tokens and limits, with the same request over raw vsock to a server that does
// nothing else, by net/http's client and by the bridge's own; and osaurus-host as a
// process with starting a program that does nothing and one such request.
func BenchmarkBridge(b *testing.B) {
	w := newAskWorld(b)
	for _, clients := range []int{1, 64} {
		took := map[string][]time.Duration{}
		for turn := range askTurns + 1 {
			for way, run := range map[string]func(...string) string{"room": w.room, "plain": w.root, "vsock": w.root} {
				if one := w.nanos(run, "ask", way, clients, askSeconds); turn > 0 { // the first is to warm up
					took[way] = append(took[way], one...)
				}
			}
		}
		b.Run(fmt.Sprintf("%d clients", clients), func(b *testing.B) {
			room := median(took["room"])
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(1/room.Seconds(), "requests/s")
			b.ReportMetric(median(took["plain"]).Seconds()/room.Seconds(), "bridge/raw")
			b.ReportMetric(median(took["vsock"]).Seconds()/room.Seconds(), "bridge/raw-by-own-client")
		})
	}
	var shim, start, idle, request []time.Duration
	for turn := range askTurns + 1 {
		s := w.nanos(w.room, "spawn", askRounds, shimPath, "config", "get", "key")
		v := w.nanos(w.room, "spawn", askRounds, shimPath, "--version")
		i := w.nanos(w.room, "spawn", askRounds, "/bin/true")
		r := w.nanos(w.root, "ask", "vsock", askRounds)
		if turn > 0 {
			shim, start, idle, request = append(shim, s...), append(start, v...), append(idle, i...), append(request, r...)
		}
	}
	b.Run("osaurus-host", func(b *testing.B) {
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(median(shim).Microseconds())/1000, "shim-ms")
		b.ReportMetric(float64(median(start).Microseconds())/1000, "shim-start-ms") // all but the request: Go's own start, mostly
		b.ReportMetric(float64(median(idle).Microseconds())/1000, "true-ms")
		b.ReportMetric(float64(median(request).Microseconds())/1000, "raw-request-ms")
		b.ReportMetric(median(shim).Seconds()/(median(idle)+median(request)).Seconds(), "shim/(true+request)")
	})
}

// askWorld is a Debian guest with an agent's room and two servers that answer
// the same.
type askWorld struct {
	b     *testing.B
	guest *boot.Guest
}

func newAskWorld(b *testing.B) *askWorld {
	b.Helper()
	dir, workspace := b.TempDir(), b.TempDir()
	home := filepath.Join(workspace, "agents", "alice")
	for _, program := range []string{"ask", "spawn"} {
		buildInto(b, home, program)
	}
	data := filepath.Join(dir, "data.ext4")
	if err := disk.Create(data, 2<<30); err != nil {
		b.Fatal(err)
	}
	room := engine.RoomConfig{User: "agent-alice", UID: 2001, Home: guest.HomesDir + "/alice", Hostname: "alice"}
	var folders vm.Subtrees
	if err := folders.Set(vm.Subtree{Path: "agents/alice", UID: room.UID, GID: room.UID}); err != nil {
		b.Fatal(err)
	}
	bridged := bridgetest.New(b)
	g, err := boot.Boot(b.Context(), boot.Spec{
		Driver: &qemu.Driver{}, Image: lab.Image(b, lab.DebianPack(b)), Hostname: "bench", Bridge: bridged.Server,
		Config: vm.Config{Name: "bench", CPUs: cpus, Memory: memoryMB << 20, Disks: []vm.Disk{{Path: data}}, ConsoleLog: filepath.Join(dir, "console.log"),
			Shares: []vm.Share{{Tag: "workspace", Path: workspace, Ownership: vm.OwnershipSubtree, Subtrees: &folders}}},
		MountPoints: map[string]string{"workspace": "/workspace"},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { g.Close() })
	w := &askWorld{b: b, guest: g}
	w.serveRaw()
	token := bridged.Tokens.Mint(bridge.Holder{Agent: "0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E", Name: "alice", User: "agent-alice", UID: room.UID})
	if _, err := g.Client.EnsureRoom(b.Context(), room, string(token)); err != nil {
		b.Fatal(err)
	}
	w.run("agent-alice", "sh", "-c", "cp $HOME/ask $HOME/spawn /tmp && OSAURUS_PLUGIN=bench osaurus-host config set key value")
	w.run("", "sh", "-c", "cp /workspace/agents/alice/ask /tmp")
	return w
}

// serveRaw answers every request as the bridge answers the one of the benchmark.
func (w *askWorld) serveRaw() {
	l, err := w.guest.Machine.Listen(rawPort)
	if err != nil {
		w.b.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		text, _ := json.Marshal(wire.Value{Value: "value"}) // two texts, which always marshal
		out.Header().Set("Content-Type", "application/json")
		out.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = out.Write(text) // the client disconnected
	})}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) }) // until it is closed
	w.b.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
}

func (w *askWorld) room(args ...string) string { return w.run("agent-alice", args...) }
func (w *askWorld) root(args ...string) string { return w.run("", args...) }

// run runs a program in a room, or as root of the guest.
func (w *askWorld) run(room config.LinuxUser, args ...string) string {
	w.b.Helper()
	var out, errs bytes.Buffer
	exit, err := engine.Run(w.b.Context(), w.guest.Room(room), engine.Command{
		Args: args, Env: []string{"OSAURUS_PLUGIN=bench", "PATH=/usr/local/bin:/usr/bin:/bin"}, Stdout: &out, Stderr: &errs,
	})
	if err != nil || exit.Status() != 0 {
		w.b.Fatalf("%v: %+v %v: %s", args, exit, err, errs.String())
	}
	return out.String()
}

// nanos runs a program of the benchmark, from /tmp, and returns what it prints.
func (w *askWorld) nanos(run func(...string) string, program string, args ...any) (took []time.Duration) {
	w.b.Helper()
	words := []string{"/tmp/" + program}
	for _, a := range args {
		words = append(words, fmt.Sprint(a))
	}
	for _, line := range strings.Fields(run(words...)) {
		n, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			w.b.Fatal(err)
		}
		took = append(took, time.Duration(n))
	}
	return took
}
