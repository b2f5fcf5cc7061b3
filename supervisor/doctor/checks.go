package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/boot"
)

const (
	greeting   = "hello from sandbox"
	sharedDir  = "shared"        // the guest's shared folder, in the workspace
	maxSkew    = 2 * time.Second // of the guest's clock; more breaks certificates, builds and logs
	roundTrips = 10              // the slowest counts, since one may be lucky
	maxTrip    = 2 * time.Second // far above what any accelerator needs; more makes tools feel slow
	minFree    = 256 << 20       // of the guest's disk: enough to install a medium package
)

// The advice for checks that fail.
const (
	restartAdvice = "Restart the sandbox: osaurus-sandbox restart. If that does not help, run osaurus-sandbox provision."
	networkAdvice = "Check that this computer itself reaches it and that no firewall or VPN blocks the sandbox. Then run osaurus-sandbox restart. " +
		"This computer and local networks need a rule: osaurus-sandbox config set 'networkRules+=allow localhost:PORT'"
	dnsAdvice      = "Check that this computer itself resolves names, and what /etc/resolv.conf in the guest contains."
	shareAdvice    = "Restart the sandbox: osaurus-sandbox restart. Make sure that you own the workspace and that its disk has free space."
	roomAdvice     = "Restart the sandbox: osaurus-sandbox restart. If that does not help, reset the guest's disk: osaurus-sandbox reset."
	packagesAdvice = "The package tool needs the network and its mirrors. See the check of the network and the setting mirrors. " +
		"An agent reaches a mirror on this computer only with a rule: osaurus-sandbox agent set NAME 'network.rules+=allow localhost'"
)

// same returns an error if a check got something other than it wanted.
func same(got string, err error, want string) (string, error) {
	if err == nil && got != want {
		err = fault.Newf(fault.Execution, "", "", "got %q instead of %q", got, want)
	}
	return got, err
}

func checkExec(ctx context.Context, b checker) (string, error) {
	output, err := b.sh(ctx, "echo "+greeting)
	return same(output, err, greeting)
}

func checkVsock(ctx context.Context, b checker) (string, error) {
	var slowest time.Duration
	for range roundTrips {
		asked := time.Now()
		if _, err := b.Info(ctx); err != nil {
			return "", err
		}
		slowest = max(slowest, time.Since(asked))
	}
	if slowest > maxTrip {
		return "", fault.Newf(fault.Timeout, "ask guest", "", "an answer took %v", slowest.Round(time.Millisecond)).
			Advise("This computer or the guest is very busy. See osaurus-sandbox status and what else runs here.")
	}
	return fmt.Sprintf("the slowest of %d answers took %v", roundTrips, slowest.Round(100*time.Microsecond)), nil
}

// networked returns a check that asks about a host once the guest is connected.
func networked(to string, ask func(ctx context.Context, b checker, to string) (string, error)) func(context.Context, checker) (string, error) {
	return func(ctx context.Context, b checker) (string, error) {
		if err := boot.CheckNetwork(ctx, b.Info); err != nil {
			return "", advise(err, networkAdvice)
		}
		return ask(ctx, b, to)
	}
}

// fetch uses this project's guest program, since a distribution may have no
// program for it, or one that crashes when it resolves a name.
func fetch(ctx context.Context, b checker, address string) (string, error) {
	return b.run(ctx, guest.Program, "fetch", address)
}

func resolve(ctx context.Context, b checker, name string) (string, error) {
	return b.sh(ctx, `if command -v getent >/dev/null; then getent hosts "$1"; else nslookup "$1"; fi`, name)
}

func trialName() string { return ".diagnose-" + rand.Text() }

func shareToGuest(ctx context.Context, b checker) (string, error) {
	name := trialName()
	root, err := os.OpenRoot(b.Home().Workspace())
	if err != nil {
		return "", err
	}
	defer root.Close()
	file := path.Join(sharedDir, name)
	if err := root.WriteFile(file, []byte(name), 0o600); err != nil {
		return "", err
	}
	defer root.Remove(file)
	text, err := b.sh(ctx, `cat "$1"`, path.Join(guest.SharedDir, name))
	_, err = same(text, err, name)
	return "the contents are the same", err
}

func shareToHost(ctx context.Context, b checker) (string, error) {
	name := trialName()
	if _, err := b.sh(ctx, `printf %s "$1" > "$2"`, name, path.Join(guest.SharedDir, name)); err != nil {
		return "", err
	}
	text, err := readShared(b.Home(), name)
	_, err = same(text, err, name)
	return "the contents are the same", err
}

// readShared reads and removes a small file in the shared folder. The guest can
// write there, so it follows no link out of the workspace and does not block on a FIFO.
func readShared(home config.Home, name string) (string, error) {
	root, err := os.OpenRoot(home.Workspace())
	if err != nil {
		return "", err
	}
	defer root.Close()
	name = path.Join(sharedDir, name)
	defer root.Remove(name)
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxOutput))
	return string(text), err
}

func checkClock(ctx context.Context, b checker) (string, error) {
	before := time.Now()
	info, err := b.Info(ctx)
	if err != nil {
		return "", err
	}
	// The guest read its clock between the question and the answer.
	skew := time.Unix(0, info.TimeUnixNano).Sub(before)
	if passed := time.Since(before); skew > 0 {
		skew = max(0, skew-passed)
	}
	if skew.Abs() > maxSkew {
		err = fault.Newf(fault.Execution, "compare clocks", "", "the guest's clock is off by %v", skew.Round(time.Millisecond)).
			Advise("It is set every half minute. If this persists, restart the sandbox: osaurus-sandbox restart.")
	}
	return fmt.Sprintf("off by less than %v", (skew.Abs() + time.Millisecond).Round(time.Millisecond)), err
}

func guestSpace(ctx context.Context, b checker) (string, error) {
	output, err := b.sh(ctx, `df -Pk / | awk 'NR==2 {print $4}'`)
	if err != nil {
		return "", err
	}
	kilobytes, err := strconv.ParseInt(output, 10, 64)
	if err != nil {
		return "", err
	}
	return checkFree(kilobytes<<10, minFree, "Remove files in the guest, enlarge its disk (osaurus-sandbox config set diskGB=…, then restart), or reset it: osaurus-sandbox reset.")
}

func hostSpace(_ context.Context, b checker) (string, error) {
	home := string(b.Home())
	free, err := clone.Free(home)
	if err != nil {
		return "", fault.Wrap("look at free disk space", home, err)
	}
	return checkFree(free, boot.MinFree, "Free disk space for "+home+".")
}

func checkFree(free, need int64, advice string) (string, error) {
	text := fmt.Sprintf("%.1f GiB free", float64(free)/(1<<30))
	if free < need {
		return "", fault.Newf(fault.Execution, "look at free disk space", "", "%s", text).Advise(advice)
	}
	return text, nil
}

func checkAgent(ctx context.Context, b checker) (string, error) {
	output, err := b.inRoom(ctx, false, `echo "$(id -un) $(id -u) $PWD" && echo trial > .diagnose && rm .diagnose`)
	if err != nil {
		return "", err
	}
	agent, err := b.agent()
	return same(output, err, fmt.Sprintf("%s %d %s", agent.User, agent.UID, agent.Home()))
}

// checkBridge calls the bridge with the agent's token.
func checkBridge(ctx context.Context, b checker) (string, error) {
	_, err := b.inRoom(ctx, false, "osaurus-host log debug diagnose")
	return "it answered", err
}

// packageTool is a distribution's package tool.
type packageTool struct {
	command string // simulates an install
	mirrors string // a script that prints the addresses that the tool fetches first, one a line
}

// findPackageTool returns the tool of this guest's distribution, or nil.
func findPackageTool(ctx context.Context, b checker) *packageTool {
	apk := &packageTool{"apk add --no-cache --simulate jq", `sed -n "s,^http.*,&/$(apk --print-arch)/APKINDEX.tar.gz,p" /etc/apk/repositories`}
	apt := &packageTool{"apt-get install --simulate jq", `apt-get update --print-uris | sed -n "s,^'\(http[^']*\)'.*,\1,p"`}
	info, err := b.Info(ctx)
	if err != nil {
		return nil
	}
	return map[string]*packageTool{"alpine": apk, "debian": apt, "ubuntu": apt}[info.OsRelease["ID"]]
}

// address returns the first address that the tool fetches.
func (t *packageTool) address(ctx context.Context, b checker) string {
	if t == nil {
		return defaultTarget
	}
	ctx, cancel := context.WithTimeout(ctx, mirrorTimeout)
	defer cancel()
	output, _ := b.sh(ctx, t.mirrors) // the check "packages" reports what fails
	first, _, _ := strings.Cut(output, "\n")
	return cmp.Or(strings.TrimSpace(first), defaultTarget)
}

func (t *packageTool) check(ctx context.Context, b checker) (string, error) {
	_, err := b.inRoom(ctx, true, t.command)
	return "it would install jq", err
}
