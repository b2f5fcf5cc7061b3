package boot_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/qemu"
)

// BenchmarkRoom compares a command in a warm room, asked for from the host, with a plain
// fork and exec of the same program by a program in the guest. The turns alternate,
// so that other load falls on both.
func BenchmarkRoom(b *testing.B) {
	const rounds, turns = 12, 5
	h := newHome(b, lab.Image(b, lab.DebianPack(b)), vm.OwnershipSubtree)
	h.driver = &qemu.Driver{} // as it is for people
	h.boot(b)
	c, room := h.guest.Client, engine.RoomConfig{User: "agent-speed", UID: 2001, Home: guest.HomesDir + "/speed", Hostname: "speed"}
	files := filepath.Join(h.workspace, "agents", "speed")
	static, err := os.ReadFile(lab.Busybox(b, string(vm.HostArch())))
	if err != nil {
		b.Fatal(err)
	}
	for name, program := range map[string][]byte{"true": static, "intruder": intruder(b)} {
		if err := os.MkdirAll(files, 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(files, name), program, 0o755); err != nil {
			b.Fatal(err)
		}
	}
	h.own("agents/speed", room.UID)
	began := time.Now()
	if _, err := c.EnsureRoom(b.Context(), room, ""); err != nil {
		b.Fatal(err)
	}
	first := time.Since(began)
	run := func(user config.LinuxUser, cmd engine.Command) string {
		var out bytes.Buffer
		cmd.Stdout = &out
		if exit, err := engine.Run(b.Context(), c.Room(user), cmd); err != nil || exit.Status() != 0 {
			b.Fatal(cmd.Args, exit, err)
		}
		return out.String()
	}
	// In memory for both, or the share would be measured.
	run(engine.Root, engine.Command{Args: []string{"sh", "-c", "cp " + room.Home + "/* /tmp"}})
	run(room.User, engine.Command{Args: []string{"sh", "-c", "cp true /tmp"}})
	for _, p := range []struct{ name, path string }{{"dynamic", "/bin/true"}, {"static", "/tmp/true"}} {
		var plain, rooms []time.Duration
		for range rounds {
			for line := range strings.Lines(run(engine.Root, engine.Command{Args: []string{"/tmp/intruder", "spawn", strconv.Itoa(turns), p.path}})) {
				var n int64
				if _, err := fmt.Sscan(line, &n); err != nil {
					b.Fatal(err)
				}
				plain = append(plain, time.Duration(n))
			}
			for range turns {
				began := time.Now()
				run(room.User, engine.Command{Args: []string{p.path}, Dir: "/"})
				rooms = append(rooms, time.Since(began))
			}
		}
		slices.Sort(plain)
		slices.Sort(rooms)
		b.Logf("%s: fork and exec %v, in a room from the host %v (medians of %d)", p.name, plain[len(plain)/2], rooms[len(rooms)/2], len(rooms))
		b.ReportMetric(float64(rooms[len(rooms)/2])/float64(plain[len(plain)/2]), p.name+"/fork+exec")
	}
	b.ReportMetric(float64(first.Milliseconds()), "first-room-ms")
	b.ReportMetric(0, "ns/op")
}
