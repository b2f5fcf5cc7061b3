package debian

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

// maxStderr is how many bytes at the end of a failed program's output an error quotes.
const maxStderr = 4 << 10

// host is the distribution of this host.
type host struct {
	id       string // debian, ubuntu
	version  string // 12
	codename string // bookworm
}

// Available returns an error with advice if this host cannot make a pack for the
// architecture.
func Available(arch vm.Arch) error {
	_, err := available(arch)
	return err
}

func available(arch vm.Arch) (host, error) {
	h, err := thisHost()
	if err != nil {
		return host{}, unavailable(arch, err).Advise("Make the pack on a Debian or Ubuntu host with `osaurus-sandbox pack build debian`, carry it here with `osaurus-sandbox pack export` and `osaurus-sandbox pack import`.")
	}
	var missing []string
	for _, tool := range []string{"apt-get", "apt-cache", "dpkg-deb", "mmdebstrap", "unshare"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = append(missing, tool)
		}
	}
	if len(missing) > 0 {
		return host{}, unavailable(arch, fmt.Errorf("not installed: %s", strings.Join(missing, ", "))).
			Advise("Run `sudo apt-get install apt dpkg mmdebstrap util-linux uidmap`.")
	}
	if os.Geteuid() != 0 {
		if _, err := exec.LookPath("newuidmap"); err != nil {
			return host{}, unavailable(arch, errors.New("not installed: newuidmap")).Advise("Run `sudo apt-get install uidmap`.")
		}
	}
	if arch != vm.HostArch() && !emulates(arch) {
		return host{}, unavailable(arch, fmt.Errorf("this %s host cannot run its programs", runtime.GOARCH)).
			Advise("Run `sudo apt-get install qemu-user-static binfmt-support`, or make the pack on such a host and carry it here with `osaurus-sandbox pack export` and `osaurus-sandbox pack import`.")
	}
	return h, nil
}

func unavailable(arch vm.Arch, err error) *fault.Error {
	return fault.New(fault.Unavailable, "make a Debian pack for", string(arch), err)
}

func thisHost() (host, error) {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return host{}, errors.New("this host is not Debian or Ubuntu")
	}
	return parseRelease(string(text))
}

func parseRelease(text string) (host, error) {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = strings.Trim(value, `"'`)
	}
	h := host{id: values["ID"], version: values["VERSION_ID"], codename: values["VERSION_CODENAME"]}
	if h.id != "debian" && h.id != "ubuntu" || h.codename == "" {
		return host{}, fmt.Errorf("this host is %q, neither Debian nor Ubuntu", values["PRETTY_NAME"])
	}
	return h, nil
}

// emulates reports whether the kernel runs another architecture's programs in an emulator.
func emulates(arch vm.Arch) bool {
	machine := map[vm.Arch]string{vm.AMD64: "x86_64", vm.ARM64: "aarch64"}[arch]
	text, err := os.ReadFile(filepath.Join("/proc/sys/fs/binfmt_misc", "qemu-"+machine))
	return err == nil && bytes.HasPrefix(text, []byte("enabled"))
}

// run runs a program of the host and returns its output.
func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var out bytes.Buffer
	cmd.Stdout = &out
	err := runCommand(ctx, cmd)
	return out.String(), err
}

// runCommand runs a command, which is killed if this program is. Its error quotes the end
// of the command's stderr.
func runCommand(ctx context.Context, cmd *exec.Cmd) error {
	// The kernel kills the command when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dieWithParent(cmd)
	var stderr tail
	cmd.Stderr = &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, bytes.TrimSpace(stderr))
	}
	return nil
}

// pipe runs a command and calls read with its output. If the command fails, the reader
// returns its error.
func pipe(ctx context.Context, cmd *exec.Cmd, read func(io.Reader) error) error {
	r, w := io.Pipe()
	cmd.Stdout = w
	done := make(chan error, 1)
	go func() {
		err := runCommand(ctx, cmd)
		w.CloseWithError(err)
		done <- err
	}()
	err := read(r)
	r.CloseWithError(err) // ends the command
	return cmp.Or(err, <-done)
}

// tail keeps the end of what is written to it.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	*t = (*t)[max(0, len(*t)-maxStderr):]
	return len(p), nil
}
