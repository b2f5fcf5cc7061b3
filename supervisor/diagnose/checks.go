package diagnose

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/boot"
)

const (
	greeting = "hello from sandbox"
	// sharedHere is where the guest's shared folder is in the workspace.
	sharedHere = "shared"
	// maxSkew is how far the guest's clock may be off: less than what makes
	// certificates, builds or logs go wrong.
	maxSkew = 2 * time.Second
	// networkPoll is how often a network that is not up yet is looked at.
	networkPoll = 200 * time.Millisecond
	// roundTrips are asked one after the other: the slowest of a few says more
	// than one that may have been lucky.
	roundTrips = 10
	// maxRoundTrip is far above what any accelerator needs: beyond it every
	// tool of an agent would feel slow.
	maxRoundTrip = 2 * time.Second
	// minGuestRoom is what installing a middling package takes.
	minGuestRoom = 256 << 20
)

const restartAdvice = "Restart the sandbox: osaurus-sandbox restart. If that does not help: osaurus-sandbox provision."

func exec(ctx context.Context, b bench) (string, error) {
	said, err := b.sh(ctx, "echo "+greeting)
	if err == nil && said != greeting {
		err = fault.Newf(fault.Execution, "run in guest", "echo", "it said %q", said)
	}
	return said, advise(err, restartAdvice)
}

// vsock is the way that everything else takes.
func vsock(ctx context.Context, b bench) (string, error) {
	var slowest time.Duration
	for range roundTrips {
		asked := time.Now()
		if _, err := b.Info(ctx); err != nil {
			return "", advise(err, restartAdvice)
		}
		slowest = max(slowest, time.Since(asked))
	}
	if slowest > maxRoundTrip {
		return "", fault.Newf(fault.Timeout, "ask guest", "", "an answer took %v", slowest.Round(time.Millisecond)).
			Advise("This computer or the guest is very busy: see osaurus-sandbox status, and what else runs.")
	}
	return fmt.Sprintf("the slowest of %d answers took %v", roundTrips, slowest.Round(100*time.Microsecond)), nil
}

const networkAdvice = "See that this computer itself reaches it, and that no firewall or VPN keeps the sandbox from it; then osaurus-sandbox restart."

// fetch uses the guest's own program: what a distribution has for it may be
// nothing, or, in the smallest, crash when it looks up a name.
func fetch(addresses []string) func(context.Context, bench) (string, error) {
	return func(ctx context.Context, b bench) (string, error) {
		return b.anyOf(ctx, addresses, networkAdvice, func(address string) (string, error) {
			return b.run(ctx, guest.Program, "fetch", address)
		})
	}
}

// anyOf asks one after the other until one answers, once the network is up.
func (b bench) anyOf(ctx context.Context, list []string, advice string, ask func(string) (string, error)) (string, error) {
	if err := b.networkUp(ctx); err != nil {
		return "", advise(err, networkAdvice)
	}
	var failed []error
	for _, one := range list {
		said, err := ask(one)
		if err == nil {
			return said, nil
		}
		failed = append(failed, err)
	}
	return "", advise(errors.Join(failed...), advice)
}

// networkUp waits while a guest that has only just booted asks for its address.
func (b bench) networkUp(ctx context.Context) error {
	for {
		info, err := b.Info(ctx)
		if err != nil {
			return err
		}
		switch n := info.Network; n.Status {
		case guest.NetworkUp:
			return nil
		case guest.NetworkPending:
		default:
			return fault.Newf(fault.Unavailable, "look at the guest's network", "", "it is %s: %s", n.Status, n.Trouble)
		}
		select {
		case <-ctx.Done():
			return fault.New(fault.Timeout, "wait for the guest's network", "", ctx.Err())
		case <-time.After(networkPoll):
		}
	}
}

func lookUp(names []string) func(context.Context, bench) (string, error) {
	return func(ctx context.Context, b bench) (string, error) {
		return b.anyOf(ctx, names, "See that this computer resolves names itself, and what /etc/resolv.conf in the guest says.", func(name string) (string, error) {
			return b.sh(ctx, `if command -v getent >/dev/null; then getent hosts "$1"; else nslookup "$1"; fi`, name)
		})
	}
}

// isName reports whether a host is a name and not an address.
func isName(host string) bool {
	_, err := netip.ParseAddr(host)
	return err != nil
}

const shareAdvice = "Restart the sandbox: osaurus-sandbox restart. See that the workspace is yours, and that its disk has room."

// trial is the name of a file that nobody else has.
func trial() string { return ".diagnose-" + rand.Text() }

func toGuest(ctx context.Context, b bench) (string, error) {
	name := trial()
	root, err := os.OpenRoot(b.Home().Workspace())
	if err != nil {
		return "", advise(err, shareAdvice)
	}
	defer root.Close()
	here := path.Join(sharedHere, name)
	if err := root.WriteFile(here, []byte(name), 0o600); err != nil {
		return "", advise(err, shareAdvice)
	}
	defer root.Remove(here)
	said, err := b.sh(ctx, `cat "$1"`, path.Join(guest.SharedDir, name))
	if err == nil && said != name {
		err = fault.Newf(fault.Execution, "read in guest", name, "it reads %q", said)
	}
	return "read what was written", advise(err, shareAdvice)
}

func toHost(ctx context.Context, b bench) (string, error) {
	name := trial()
	there := path.Join(guest.SharedDir, name)
	if _, err := b.sh(ctx, `printf %s "$1" > "$2"`, name, there); err != nil {
		return "", advise(err, shareAdvice)
	}
	read, err := readShared(b.Home(), name)
	if err == nil && read != name {
		err = fault.Newf(fault.Execution, "read", name, "it reads %q", read)
	}
	return "read what was written", advise(err, shareAdvice)
}

// readShared reads and removes a small file in the workspace, which the guest writes
// to: whatever it made there, nothing outside is touched, and nothing blocks.
func readShared(home config.Home, name string) (string, error) {
	root, err := os.OpenRoot(home.Workspace())
	if err != nil {
		return "", err
	}
	defer root.Close()
	name = path.Join(sharedHere, name)
	defer root.Remove(name)
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxOutput))
	return string(text), err
}

func clock(ctx context.Context, b bench) (string, error) {
	before := time.Now()
	info, err := b.Info(ctx)
	if err != nil {
		return "", advise(err, restartAdvice)
	}
	// It was read somewhere between the question and the answer.
	skew := info.Time.Sub(before)
	if passed := time.Since(before); skew > 0 {
		skew = max(0, skew-passed)
	}
	if skew.Abs() > maxSkew {
		err = fault.Newf(fault.Execution, "compare clocks", "", "the guest's is off by %v", skew.Round(time.Millisecond)).
			Advise("It is set every half minute. If it stays so, restart the sandbox: osaurus-sandbox restart.")
	}
	return fmt.Sprintf("off by less than %v", (skew.Abs() + time.Millisecond).Round(time.Millisecond)), err
}

func guestRoom(ctx context.Context, b bench) (string, error) {
	said, err := b.sh(ctx, `df -Pk / | awk 'NR==2 {print $4}'`)
	if err != nil {
		return "", advise(err, restartAdvice)
	}
	kilobytes, err := strconv.ParseInt(said, 10, 64)
	if err != nil {
		return "", fault.New(fault.Execution, "read df", "", err).Advise(restartAdvice)
	}
	return room(kilobytes<<10, minGuestRoom, "Remove what is not needed in the guest, enlarge its disk (osaurus-sandbox config set diskGB=…, then restart), or begin anew: osaurus-sandbox reset.")
}

func hostRoom(_ context.Context, b bench) (string, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(string(b.Home()), &s); err != nil {
		return "", fault.New(fault.Execution, "ask for room", string(b.Home()), err)
	}
	return room(int64(s.Bavail)*int64(s.Bsize), boot.MinFree, "Free some space on the disk of "+string(b.Home())+".")
}

func room(free, need int64, advice string) (string, error) {
	text := fmt.Sprintf("%.1f GiB free", float64(free)/(1<<30))
	if free < need {
		return "", fault.New(fault.Execution, "look for room", "", errors.New(text)).Advise(advice)
	}
	return text, nil
}

func agentUser(ctx context.Context, b bench) (string, error) {
	const advice = "Restart the sandbox: osaurus-sandbox restart. If that does not help, give the agents' disk a fresh start: osaurus-sandbox reset."
	said, err := b.inRoom(ctx, false, `echo "$(id -un) $(id -u) $PWD" && echo trial > .diagnose && rm .diagnose`)
	if err != nil {
		return "", advise(err, advice)
	}
	agent, err := b.agent()
	if want := fmt.Sprintf("%s %d %s", agent.User, agent.UID, agent.Home()); err == nil && said != want {
		err = fault.Newf(fault.Execution, "run in room", "id", "it is %q, not %q", said, want).Advise(advice)
	}
	return said, err
}

// askHost is the way of programs to this host, with their agent's token.
func askHost(ctx context.Context, b bench) (string, error) {
	if _, err := b.inRoom(ctx, false, "osaurus-host log debug diagnose"); err != nil {
		return "", advise(err, restartAdvice)
	}
	return "it was answered", nil
}

// tool is a distribution's package tool.
type tool struct {
	command string
	ask     string // a script that prints what the tool would get to learn which packages there are, one address a line
}

// packageTool is the one that this guest has or should have, or nil.
func packageTool(ctx context.Context, b bench) *tool {
	apk := &tool{"apk add --no-cache --simulate jq", `sed -n "s,^http.*,&/$(apk --print-arch)/APKINDEX.tar.gz,p" /etc/apk/repositories`}
	apt := &tool{"apt-get install --simulate jq", `apt-get update --print-uris | sed -n "s,^'\(http[^']*\)'.*,\1,p"`}
	info, err := b.Info(ctx)
	if err != nil {
		return nil
	}
	return map[string]*tool{"alpine": apk, "debian": apt, "ubuntu": apt}[info.OSRelease["ID"]]
}

// mirrors are what the tool asks first of each host.
func (t *tool) mirrors(ctx context.Context, b bench) []string {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var list, hosts []string
	if t != nil {
		said, _ := b.sh(ctx, t.ask) // what fails says so in a check of its own
		for address := range strings.Lines(said) {
			u, err := url.Parse(strings.TrimSpace(address))
			if err != nil || slices.Contains(hosts, u.Host) || len(list) == maxTargets {
				continue
			}
			hosts = append(hosts, u.Host)
			list = append(list, u.String())
		}
	}
	if len(list) == 0 {
		return []string{anyTarget}
	}
	return list
}

func (t *tool) try(ctx context.Context, b bench) (string, error) {
	_, err := b.inRoom(ctx, true, t.command)
	return "it would install jq", advise(err, "The package tool needs the network and its mirrors: see the check of the network, and the setting mirrors. A mirror on this computer is reached only with the agent's setting hostServices.")
}
