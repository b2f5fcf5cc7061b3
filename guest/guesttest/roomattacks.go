package guesttest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/engine"
)

// attackCases are attacks of bob on alice and the guest. Where it can be, each case also checks that
// the target exists.
func attackCases() []roomCase {
	return []roomCase{
		{"Calls", attackCalls}, {"RootOfRoom", attackAsRoomRoot}, {"ForeignArchitecture", attackForeign},
		{"HomeInWorkspace", attackHome}, {"HomeInProc", attackProc}, {"Kernel", attackKernel}, {"Patches", attackPatches}, {"Starting", attackStart},
		{"Layers", attackLayers}, {"BindNames", attackBindNames},
		{"Descriptors", attackDescriptors}, {"Signals", attackSignals}, {"Temporary", attackTemporary},
		{"SharedMemory", attackSharedMemory}, {"AbstractSocket", attackAbstract}, {"Loopback", attackLoopback},
		{"SetUID", attackSetUID}, {"SharedFolder", attackShared}, {"Chroot", attackChroot}, {"Accounts", attackAccounts},
	}
}

// answers returns the expected results of the intruder's calls. Others return EPERM; "any" is any
// error.
func answers(root bool) map[string]string {
	want := map[string]string{
		"socket-vsock": "EAFNOSUPPORT", "socket-vsock-high": "EAFNOSUPPORT", "socket-packet": "EAFNOSUPPORT", "socket-alg": "EAFNOSUPPORT",
		"socket-netlink-route": "ok", "socket-netlink-sockets": "ok", "socket-netlink-user": "EPROTONOSUPPORT", "socket-netlink-generic": "EPROTONOSUPPORT",
		"socket-inet": "ok", "clone3-user": "any", "process_vm_readv-init": "any", "ptrace-init": "any", "kill-init": "any",
		"bpf": "ENOSYS", "io_uring_setup": "ENOSYS", "userfaultfd": "ENOSYS", "perf_event_open": "ENOSYS", "keyctl": "ENOSYS",
		"add_key": "ENOSYS", "fanotify_init": "ENOSYS", "setpriority": "any", "capability": "any",
		"mknod-mem": "any", "mknod-disk": "any",
	}
	if root {
		want["chroot"], want["setuid-root"], want["setgid-root"] = "ok", "ok", "ok"
		want["kill-init"] = "ok" // the kernel drops it; the case checks that the room is still there
	}
	return want
}

func attackCalls(ctx context.Context, t *testing.T, _, bob *agent) {
	out, exit := bob.run(ctx, t, "exec ./intruder calls")
	checkCalls(t, out, exit, answers(false))
}

func checkCalls(t *testing.T, out string, exit engine.Exit, want map[string]string) {
	t.Helper()
	const atLeast = 60
	lines := strings.Split(out, "\n")
	if exit.Status() != 0 || len(lines) < atLeast {
		t.Fatalf("%+v\n%s", exit, out)
	}
	for _, line := range lines {
		call, got, _ := strings.Cut(line, " ")
		expected, ok := want[call]
		switch {
		case strings.HasPrefix(call, "open-"):
			if got == "ok" {
				t.Errorf("%s: %s", call, got)
			}
		case !ok && got != "EPERM", ok && expected == "any" && got == "ok", ok && expected != "any" && got != expected:
			t.Errorf("%s: %s, want %s", call, got, expected)
		}
	}
}

// attackAsRoomRoot makes calls as the root of a room.
func attackAsRoomRoot(ctx context.Context, t *testing.T, alice, bob *agent) {
	victim := alice.begin(ctx, t, "sleep 1000")
	out, exit := bob.asRoot(ctx, t, "cd "+bob.Home+"; exec ./intruder calls")
	checkCalls(t, out, exit, answers(true))
	out, _ = bob.asRoot(ctx, t, `kill -9 -1; ls /proc/1/fd /proc/1/root /proc/1/cwd 2>&1; echo x > /proc/sys/kernel/hostname; find / -xdev -name 'alice*' 2>/dev/null; echo end`)
	if strings.Contains(out, secret) || strings.Contains(out, "alice") {
		t.Errorf("the root of bob's room sees %s", out)
	}
	alive(ctx, t, alice, victim)
	if bob.ensure(ctx, t) {
		t.Error("the root of bob's room ended the room")
	}
}

func alive(ctx context.Context, t *testing.T, a *agent, p engine.Process) {
	t.Helper()
	if err := p.Signal(ctx, engine.SIGCONT); err != nil {
		t.Errorf("alice's process %d: %v", p.PID(), err)
	}
	if a.ensure(ctx, t) {
		t.Error("alice's room was ended")
	}
}

func attackForeign(ctx context.Context, t *testing.T, _, bob *agent) {
	arch := strings.TrimSpace(output(ctx, t, bob.suite.Client, "uname -m"))
	if arch != "x86_64" {
		t.Skip("x32 exists on amd64 only")
	}
	out, exit := bob.command(ctx, t, engine.Command{Args: []string{"./intruder", "x32"}})
	const sigsys = 31
	if exit.Signal != sigsys || out != "" {
		t.Errorf("%+v %q", exit, out)
	}
}

// hidden runs scripts as bob and as the root of his room. None may succeed or print alice's secret.
func hidden(ctx context.Context, t *testing.T, bob *agent, scripts ...string) {
	t.Helper()
	for _, script := range scripts {
		for _, run := range []func(context.Context, *testing.T, string) (string, engine.Exit){bob.run, bob.asRoot} {
			if out, exit := run(ctx, t, script); strings.Contains(out, secret) || exit.Status() == 0 {
				t.Errorf("%s: %+v %s", script, exit, out)
			}
		}
	}
}

// keep writes alice's secret to a file that everyone may read and write.
func keep(ctx context.Context, t *testing.T, alice *agent, path string) {
	t.Helper()
	if out, exit := alice.run(ctx, t, fmt.Sprintf("echo %s > %s && chmod 666 %s && cat %s", secret, path, path, path)); out != secret || exit.Status() != 0 {
		t.Fatalf("alice has no %s: %+v %s", path, exit, out)
	}
}

func attackHome(ctx context.Context, t *testing.T, alice, bob *agent) {
	keep(ctx, t, alice, alice.Home+"/secret")
	if out, _ := bob.run(ctx, t, "ls /workspace/agents"); out != "bob" {
		t.Errorf("bob sees %q", out)
	}
	hidden(ctx, t, bob,
		"cat /workspace/agents/alice/secret", "cat ../alice/secret", "cat /workspace/../workspace/agents/./alice/secret",
		"cat /workspace/shared/../agents/alice/secret", "ls /workspace/agents/alice", "echo x > /workspace/agents/alice/secret",
		"mkdir /workspace/agents/carol", "mv /workspace/agents/bob /workspace/agents/alice")
	if out, _ := alice.run(ctx, t, "cat secret"); out != secret {
		t.Errorf("alice's file holds %q", out)
	}
}

func attackProc(ctx context.Context, t *testing.T, alice, bob *agent) {
	keep(ctx, t, alice, alice.Home+"/secret")
	victim := alice.begin(ctx, t, "exec 9<secret; cd /tmp; exec sleep 1000")
	for _, run := range []func(context.Context, *testing.T, string) (string, engine.Exit){bob.run, bob.asRoot} {
		if out, _ := run(ctx, t, fmt.Sprintf("%s/intruder peek %d %s/secret %s", bob.Home, victim.PID()+10, alice.Home, secret)); out != "found 0" {
			t.Errorf("through /proc: %s", out)
		}
	}
	hidden(ctx, t, bob,
		fmt.Sprintf("ls /proc/%d", victim.PID()), fmt.Sprintf("cat /proc/%d/environ", victim.PID()), fmt.Sprintf("cat /proc/%d/fd/9", victim.PID()),
		"cat /proc/1/root/workspace/agents/alice/secret", "cat /proc/1/environ", "cat /proc/1/fd/0", "cat /proc/1/maps", "head -c 1 /proc/1/mem")
}

// attackKernel checks that only the files of /proc that programs need can be read, and none written.
func attackKernel(ctx context.Context, t *testing.T, _, bob *agent) {
	for _, run := range []func(context.Context, *testing.T, string) (string, engine.Exit){bob.run, bob.asRoot} {
		out, exit := run(ctx, t, bob.Home+"/intruder kernel")
		found := strings.Split(out, "\n")
		slices.Sort(found)
		want := []string{"end"}
		for _, name := range []string{"cgroups", "cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version"} {
			want = append(want, "read /proc/"+name)
		}
		if exit.Status() != 0 || !slices.Equal(found, want) {
			t.Errorf("%+v %q", exit, found)
		}
	}
}

// attackStart watches commands that start: for a moment they are a copy of PID 1.
func attackStart(ctx context.Context, t *testing.T, _, bob *agent) {
	shown := newWaiter("watching")
	p, err := bob.room().Exec(ctx, engine.Command{Args: []string{"./intruder", "watch", "4"}, Stdout: shown})
	if err != nil {
		t.Fatal(err)
	}
	shown.wait(ctx, t)
	for done := false; !done; {
		bob.run(ctx, t, "true")
		bob.asRoot(ctx, t, "true")
		select {
		case <-p.Done():
			done = true
		default:
		}
	}
	if _, err := p.Wait(); err != nil || !strings.Contains(shown.String(), "seen true found 0") {
		t.Errorf("%v %s", err, shown)
	}
}

// attackPatches uses socket options for which the kernel would patch its code, which can hang
// emulated guests. PID 1 has used them before.
func attackPatches(ctx context.Context, t *testing.T, _, bob *agent) {
	// Patching takes an emulated guest milliseconds each time, with all processors stopped.
	const times, most = 1000, 20 * time.Second
	began := time.Now()
	if out, exit := bob.run(ctx, t, fmt.Sprint("./intruder patches ", times)); exit.Status() != 0 {
		t.Fatalf("%+v %s", exit, out)
	}
	if took := time.Since(began); took > most {
		t.Errorf("%d times take %v", times, took)
	}
}

func attackLayers(ctx context.Context, t *testing.T, alice, bob *agent) {
	keep(ctx, t, alice, "/tmp/layer-secret")
	if out, exit := alice.asRoot(ctx, t, "echo "+secret+" > /etc/layer-secret"); exit.Status() != 0 {
		t.Fatal(out)
	}
	hidden(ctx, t, bob,
		"cat /run/osaurus/data/rooms/agent-alice/tmp/layer-secret", "cat /run/osaurus/data/rooms/.layers/*/etc/layer-secret",
		"ls /run/osaurus/data", "cat /etc/layer-secret", "cat /tmp/layer-secret", "cat /../../etc/layer-secret", "ls /run/osaurus/base /base /data /newroot")
	if out, _ := bob.asRoot(ctx, t, "find / -name layer-secret 2>/dev/null; echo end"); out != "end" {
		t.Errorf("bob finds %s", out)
	}
	// Only he sees what the root of his room changes.
	if out, exit := bob.asRoot(ctx, t, "rm -f /bin/cat && [ ! -e /bin/cat ]"); exit.Status() != 0 {
		t.Errorf("%+v %s", exit, out)
	}
	if out, exit := alice.run(ctx, t, "cat /dev/null"); exit.Status() != 0 {
		t.Errorf("alice has lost a program: %s", out)
	}
	if err := bob.suite.Client.ResetRoom(ctx, bob.User); err != nil {
		t.Fatal(err)
	}
	bob.ensure(ctx, t)
}

// attackBindNames plants links where the guest mounts folders and files when it makes a room.
func attackBindNames(ctx context.Context, t *testing.T, alice, bob *agent) {
	keep(ctx, t, alice, alice.Home+"/secret")
	c := bob.suite.Client
	if err := c.RemoveRoom(ctx, bob.User, false); err != nil {
		t.Fatal(err)
	}
	home := bob.onHost()
	for _, name := range []string{".venv", ".cache", ".osaurus"} {
		if err := os.RemoveAll(filepath.Join(home, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{".venv": "/workspace/agents/alice", ".cache": "/run/osaurus", ".osaurus": "/etc"} {
		if err := os.Symlink(to, filepath.Join(home, name)); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		for _, name := range []string{".venv", ".cache", ".osaurus"} {
			_ = os.Remove(filepath.Join(home, name))
		}
		_ = c.RemoveRoom(ctx, bob.User, true)
	}()
	if e, err := c.EnsureRoom(ctx, bob.RoomConfig, bob.token); err != nil || len(e.Lacks) != 3 {
		t.Fatalf("%v %q", err, e.Lacks)
	}
	hidden(ctx, t, bob, "cat ~/.venv/secret || cat "+bob.Home+"/.venv/secret", "ls "+bob.Home+"/.cache/data")
	// The same in the layer, by the root of the room. Mount points cannot be replaced while the room
	// runs, so only files that the guest writes are left.
	const planted = "/workspace/shared/planted"
	if out, exit := bob.asRoot(ctx, t, "ln -sf "+planted+" /etc/passwd && rm /etc/group && mkfifo /etc/group; ! mv /tmp /tmp2 2>/dev/null"); exit.Status() != 0 {
		t.Errorf("%+v %s", exit, out)
	}
	if err := c.RemoveRoom(ctx, bob.User, false); err != nil {
		t.Fatal(err)
	}
	if _, err := c.EnsureRoom(ctx, bob.RoomConfig, bob.token); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(bob.suite.Workspace, "shared", "planted")); err == nil {
		t.Error("the guest's root followed a link into the share")
	}
	if out, exit := bob.run(ctx, t, "[ ! -L /etc/passwd ] && cat /etc/passwd /etc/group"); exit.Status() != 0 || strings.Count(out, string(bob.User)+":x:") != 2 {
		t.Errorf("%+v %s", exit, out)
	}
}

func attackDescriptors(ctx context.Context, t *testing.T, _, bob *agent) {
	for _, run := range []func(context.Context, *testing.T, string) (string, engine.Exit){bob.run, bob.asRoot} {
		// 3 is the folder that ls reads.
		if out, _ := run(ctx, t, "ls /proc/self/fd"); strings.Join(strings.Fields(out), " ") != "0 1 2 3" {
			t.Errorf("a command starts with descriptors %s", out)
		}
	}
}

func attackSignals(ctx context.Context, t *testing.T, alice, bob *agent) {
	victim := alice.begin(ctx, t, "sleep 1000")
	hidden(ctx, t, bob, fmt.Sprintf("kill -9 %d", victim.PID()), fmt.Sprintf("kill -STOP %d", victim.PID()))
	for _, run := range []func(context.Context, *testing.T, string) (string, engine.Exit){bob.run, bob.asRoot} {
		run(ctx, t, "trap '' TERM; kill -TERM -1; kill -STOP 1; kill -9 1; kill -SEGV 1; kill -9 -1")
	}
	alive(ctx, t, alice, victim)
	if bob.ensure(ctx, t) {
		t.Error("bob ended his room's first process")
	}
}

func attackTemporary(ctx context.Context, t *testing.T, alice, bob *agent) {
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		if out, _ := alice.run(ctx, t, "[ -d "+dir+" ] || echo missing"); out == "missing" {
			continue // busybox's root has no /var/tmp
		}
		keep(ctx, t, alice, dir+"/secret")
		hidden(ctx, t, bob, "cat "+dir+"/secret")
		if out, exit := bob.run(ctx, t, "echo bob > "+dir+"/secret && cat "+dir+"/secret"); out != "bob" || exit.Status() != 0 {
			t.Errorf("bob's own %s: %s", dir, out)
		}
		if out, _ := alice.run(ctx, t, "cat "+dir+"/secret"); out != secret {
			t.Errorf("alice's %s: %s", dir, out)
		}
	}
}

func attackSharedMemory(ctx context.Context, t *testing.T, alice, bob *agent) {
	alice.begin(ctx, t, "exec ./intruder shm-put")
	eventually(ctx, t, func() bool { out, _ := alice.run(ctx, t, "./intruder shm-get"); return out == "shm ok" })
	if out, _ := bob.run(ctx, t, "./intruder shm-get"); out != "shm ENOENT" {
		t.Errorf("bob: %s", out)
	}
}

func eventually(ctx context.Context, t *testing.T, holds func() bool) {
	t.Helper()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatal("it never held")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// reaches checks that alice reaches a server of hers at an address and bob does not.
func reaches(ctx context.Context, t *testing.T, alice, bob *agent, network, address string) {
	t.Helper()
	alice.begin(ctx, t, fmt.Sprintf("exec ./intruder listen %s %s", network, address))
	dial := fmt.Sprintf("./intruder dial %s %s", network, address)
	eventually(ctx, t, func() bool { out, _ := alice.run(ctx, t, dial); return out == "connected: hello" })
	if out, _ := bob.run(ctx, t, dial); !strings.HasPrefix(out, "refused") {
		t.Errorf("bob at %s: %s", address, out)
	}
}

func attackAbstract(ctx context.Context, t *testing.T, alice, bob *agent) {
	reaches(ctx, t, alice, bob, "unix", "@alices")
	reaches(ctx, t, alice, bob, "unix", "/tmp/alices.sock")
}

func attackLoopback(ctx context.Context, t *testing.T, alice, bob *agent) {
	reaches(ctx, t, alice, bob, "tcp", "127.0.0.1:4711")
}

func attackSetUID(ctx context.Context, t *testing.T, _, bob *agent) {
	mine := fmt.Sprintf("uid %d euid %d", bob.UID, bob.UID)
	for _, dir := range []string{bob.Home, "/tmp", "/dev/shm", "/workspace/shared", bob.Home + "/.cache"} {
		// Planted by the root of the room where it may write, otherwise by bob.
		bob.asRoot(ctx, t, fmt.Sprintf("cp %s/intruder %s/planted; chown 0:0 %s/planted; chmod 6755 %s/planted", bob.Home, dir, dir, dir))
		bob.run(ctx, t, fmt.Sprintf("[ -f %s/planted ] || { cp %s/intruder %s/planted; chmod 6755 %s/planted; }", dir, bob.Home, dir, dir))
		if out, exit := bob.run(ctx, t, dir+"/planted setuid"); exit.Status() == 0 && out != mine {
			t.Errorf("in %s: %s", dir, out)
		}
	}
	if out, exit := bob.asRoot(ctx, t, "cp "+bob.Home+"/intruder /bin/planted && chmod 6755 /bin/planted"); exit.Status() != 0 {
		t.Fatal(out)
	}
	if out, _ := bob.run(ctx, t, "/bin/planted setuid"); out != mine {
		t.Errorf("in the layer: %s", out)
	}
}

func attackShared(ctx context.Context, t *testing.T, alice, bob *agent) {
	keep(ctx, t, alice, alice.Home+"/secret")
	const dir = "/workspace/shared"
	// Whoever follows bob's link does so with their own permissions.
	if out, exit := bob.run(ctx, t, "ln -sf /workspace/agents/alice/secret "+dir+"/link && ! cat "+dir+"/link"); exit.Status() != 0 {
		t.Errorf("%+v %s", exit, out)
	}
	if out, _ := alice.run(ctx, t, "cat "+dir+"/link"); out != secret {
		t.Errorf("alice follows the link to %q", out)
	}
	if b, err := os.ReadFile(filepath.Join(alice.onHost(), "secret")); err != nil || strings.TrimSpace(string(b)) != secret {
		t.Errorf("on the host: %q %v", b, err)
	}
	hidden(ctx, t, bob, "ln ../agents/alice/secret "+dir+"/hard", "ln -L "+dir+"/link "+dir+"/hard && cat "+dir+"/hard")
	if out, exit := bob.run(ctx, t, "mkfifo "+dir+"/fifo || mknod "+dir+"/fifo p"); exit.Status() == 0 {
		t.Errorf("a fifo in the share: %s", out)
	}
	if out, _ := bob.run(ctx, t, "cp intruder "+dir+"/suid; chmod 4777 "+dir+"/suid; ls -l "+dir+"/suid"); strings.HasPrefix(out, "-rws") {
		t.Errorf("a set-user-ID bit in the share: %s", out)
	}
	if out, _ := alice.run(ctx, t, dir+"/suid setuid"); out != "" && out != fmt.Sprintf("uid %d euid %d", alice.UID, alice.UID) && !strings.Contains(out, "denied") {
		t.Errorf("alice runs bob's program as %s", out)
	}
}

func attackChroot(ctx context.Context, t *testing.T, _, bob *agent) {
	out, exit := bob.asRoot(ctx, t, bob.Home+"/intruder escape /run/osaurus/base /init /modules /workspace/agents/alice /bin/sh")
	want := "chroot ok\n/run/osaurus/base false\n/init false\n/modules false\n/workspace/agents/alice false\n/bin/sh true"
	if exit.Status() != 0 || out != want {
		t.Errorf("%+v %s", exit, out)
	}
}

// attackAccounts gives bob the user id 0 in the layer's passwd.
func attackAccounts(ctx context.Context, t *testing.T, _, bob *agent) {
	if out, exit := bob.asRoot(ctx, t, "cp /etc/passwd /tmp/passwd && echo agent-bob::0:0::/:/bin/sh > /etc/passwd"); exit.Status() != 0 {
		t.Fatal(out)
	}
	if out, _ := bob.run(ctx, t, "id -u; ./intruder setuid"); !strings.HasPrefix(out, fmt.Sprint(bob.UID)) {
		t.Errorf("bob is %s", out)
	}
	if out, exit := bob.asRoot(ctx, t, "mv /tmp/passwd /etc/passwd"); exit.Status() != 0 {
		t.Error(out) // later cases need it
	}
}
