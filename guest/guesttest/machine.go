package guesttest

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/subnet"
)

// maxOwnMemory bounds the guest program's memory.
const maxOwnMemory = 30 << 20

// Run runs all cases on a booted machine: RunBoot and RunExec.
func Run(t *testing.T, connect Connector) {
	RunBoot(t, connect)
	RunExec(t, connect)
	t.Run("Memory", func(t *testing.T) {
		if m := mustInfo(bounded(t), t, connect(t)).OwnMemory; m > maxOwnMemory {
			t.Errorf("the guest program holds %d bytes, more than %d", m, maxOwnMemory)
		}
	})
}

// RunBoot runs the cases that need a booted machine, and leaves it unchanged except for timestamps.
// Besides the programs of RunExec the guest needs ls, grep and date.
func RunBoot(t *testing.T, connect Connector) {
	cases := []struct {
		name string
		run  func(context.Context, *testing.T, *guest.Client)
	}{
		{"Info", info}, {"Root", root}, {"Orphans", orphans},
		{"Clock", clock}, {"Network", networkUp}, {"Shares", shares}, {"Peers", peers}, {"Export", export},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(bounded(t), t, connect(t)) })
	}
}

func info(ctx context.Context, t *testing.T, c *guest.Client) {
	i := mustInfo(ctx, t, c)
	if i.GuestVersion == "" || i.GuestVersion != c.Version() || i.MemoryTotal == 0 || i.MemoryAvailable > i.MemoryTotal || i.UptimeNanos <= 0 {
		t.Errorf("%+v", i)
	}
	if got := output(ctx, t, c, "cat /proc/sys/kernel/osrelease"); got != i.Kernel {
		t.Errorf("kernel %q, the guest says %q", got, i.Kernel)
	}
	for _, w := range i.Warnings {
		t.Errorf("warning of the boot: %s", w)
	}
}

// root checks that the guest's root file system has what programs expect.
func root(ctx context.Context, t *testing.T, c *guest.Client) {
	for what, script := range map[string]string{
		"proc hides others":                  `grep " /proc proc .*hidepid=invisible" /proc/mounts`,
		"cgroups":                            `grep " /sys/fs/cgroup cgroup2 .*nsdelegate" /proc/mounts`,
		"own cgroup":                         `grep "^0::/commands/" /proc/self/cgroup`,
		"terminals":                          `ls /dev/pts/ptmx /dev/ptmx`,
		"standard streams":                   `echo x | cat /dev/fd/0 && echo x >/dev/stdout && ls /dev/null /dev/zero /dev/urandom /dev/shm`,
		"/tmp":                               `d=/tmp/osaurus-test; echo x >$d && cat $d && rm $d && ls -ld /tmp | grep "^drwxrwxrwt"`,
		"a writable root":                    `d=/etc/osaurus-test; echo x >$d && cat $d && rm $d`,
		"names":                              `grep localhost /etc/hosts`,
		"all processors":                     `d=/sys/devices/system/cpu; read -r present <$d/present && read -r online <$d/online && [ "$present" = "$online" ]`,
		"loopback":                           `grep "^1$" /sys/class/net/lo/carrier`,
		"closed folder of the guest program": `ls -ld /run/osaurus 2>/dev/null | grep -v "^drwx------" && exit 1; exit 0`,
	} {
		var out bytes.Buffer
		if exit, err := c.Run(ctx, engine.Command{Args: sh(script), Stdout: &out, Stderr: &out}); err != nil || exit.Code != 0 {
			t.Errorf("%s: %+v %v\n%s", what, exit, err, &out)
		}
	}
	if got := output(ctx, t, c, `grep -s " /run/osaurus/base ext4 ro," /proc/mounts >/dev/null && { echo x >/run/osaurus/base/x; } 2>/dev/null && echo written; true`); got != "" {
		t.Error("the base can be written to")
	}
}

// orphans checks that orphaned processes are reaped and not counted as commands.
func orphans(ctx context.Context, t *testing.T, c *guest.Client) {
	before := mustInfo(ctx, t, c).OrphansReaped
	const n = 20
	for range 3 {
		output(ctx, t, c, fmt.Sprintf(`i=0; while [ $i -lt %d ]; do (sleep 0.1 &); i=$((i+1)); done`, n))
	}
	eventually(ctx, t, func() bool { return mustInfo(ctx, t, c).OrphansReaped >= before+3*n })
	eventually(ctx, t, func() bool { return output(ctx, t, c, `grep -l "^State:.Z" /proc/[0-9]*/status; true`) == "" })
}

func clock(ctx context.Context, t *testing.T, c *guest.Client) {
	// ahead returns how far the guest's clock is ahead of this computer's.
	ahead := func() time.Duration {
		n, err := strconv.ParseInt(output(ctx, t, c, "date +%s"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.Until(time.Unix(n, 0))
	}
	const tolerance, hour = 20 * time.Second, time.Hour
	if off := ahead(); off.Abs() > tolerance {
		t.Errorf("after the boot the clock is off by %v", off)
	}
	// Whoever has booted the guest may set its clock right in between.
	eventually(ctx, t, func() bool {
		if was, err := c.SetTime(ctx, time.Now().Add(-hour)); err != nil || (was-hour).Abs() > tolerance {
			t.Fatalf("the guest was ahead by %v, %v", was, err)
		}
		return (ahead() + hour).Abs() < tolerance
	})
	keep, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); c.KeepTime(keep, hour) }()
	eventually(ctx, t, func() bool { return ahead().Abs() < tolerance })
	stop()
	<-done
}

// networkUp checks the route and name servers of a guest with a network.
func networkUp(ctx context.Context, t *testing.T, c *guest.Client) {
	switch i := mustInfo(ctx, t, c); i.Network {
	case "none":
		if got := output(ctx, t, c, `ls /proc/sys/net/ipv4/conf; cat /proc/net/route`); strings.Contains(got, "\t00000000\t") {
			t.Errorf("a default route without a network:\n%s", got)
		}
	case "up":
		if got := output(ctx, t, c, "cat /proc/net/route"); !strings.Contains(got, "\t00000000\t") {
			t.Errorf("no default route:\n%s", got)
		}
		if got := output(ctx, t, c, "cat /etc/resolv.conf"); got != "nameserver "+subnet.Gateway().String() {
			t.Errorf("its name servers: %s", got)
		}
		permanent := subnet.Gateway().String() + " 0x1 0x6 " + subnet.GatewayMAC
		if got := output(ctx, t, c, "cat /proc/net/arp"); !strings.Contains(strings.Join(strings.Fields(got), " "), permanent) {
			t.Errorf("its neighbours:\n%s", got)
		}
		if got := output(ctx, t, c, "grep eth0 /proc/net/if_inet6 || true"); got != "" {
			t.Errorf("eth0 has IPv6: %s", got)
		}
	default:
		t.Errorf("%+v", i)
	}
}

func shares(ctx context.Context, t *testing.T, c *guest.Client) {
	for _, m := range mustInfo(ctx, t, c).Mounts {
		script := fmt.Sprintf(`cd '%s' && grep "^%s %s virtiofs" /proc/mounts >/dev/null && f=osaurus-test && echo x >$f && cat $f && rm $f`, m.Path, m.Tag, m.Path)
		exit, err := c.Run(ctx, engine.Command{Args: sh(script)})
		if err != nil || (exit.Code == 0) == m.ReadOnly {
			t.Errorf("%+v: %+v %v", m, exit, err)
		}
	}
}

// peers checks that a program of the guest cannot reach the guest's service.
func peers(ctx context.Context, t *testing.T, c *guest.Client) {
	const streams = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	line := string(protocol.DataHeader{}.Bytes())
	for to, says := range map[string]string{ // loopback, and a guest's usual own
		fmt.Sprintf("1:%d", guest.Port): streams, fmt.Sprintf("3:%d", guest.Port): streams,
		fmt.Sprintf("1:%d", guest.EntryPort): line, fmt.Sprintf("3:%d", guest.EntryPort): line,
	} {
		var out bytes.Buffer
		_, err := c.Run(ctx, engine.Command{
			Args:  []string{"socat", "-t2", "-", "VSOCK-CONNECT:" + to},
			Stdin: strings.NewReader(says), Stdout: &out, Timeout: 20 * time.Second,
		})
		if fault.KindOf(err) == fault.NotFound && err != nil {
			t.Log("this guest has no socat: not covered here")
			return
		}
		if err != nil || out.Len() > 0 {
			t.Errorf("%s got %q (%v)", to, &out, err)
		}
	}
}

// export checks the call. Archives are tested in cmd/osaurus-guest.
func export(ctx context.Context, t *testing.T, c *guest.Client) {
	var archive bytes.Buffer
	if err := c.ExportTar(ctx, "/etc", &archive); err != nil {
		t.Fatal(err)
	}
	if h, err := tar.NewReader(&archive).Next(); err != nil || h.Name != "./" {
		t.Errorf("the archive begins with %+v, %v", h, err)
	}
	if err := c.ExportTar(ctx, "/no/such/dir", io.Discard); err == nil || !strings.Contains(err.Error(), "/no/such/dir") {
		t.Errorf("a missing directory: %v", err)
	}
}
