package debian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
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
	if _, err := thisHost(arch); err != nil {
		return err
	}
	foreign := arch != vm.HostArch()
	if foreign && !emulates(arch) {
		return unavailable(arch, fmt.Errorf("this %s host cannot run its programs", runtime.GOARCH)).
			Advise("Run `sudo apt-get install qemu-user-static binfmt-support arch-test`, or make the pack on such a host and carry it here with `osaurus-sandbox pack export` and `osaurus-sandbox pack import`.")
	}
	packages := "apt dpkg mmdebstrap util-linux uidmap"
	tools := []string{"apt-get", "apt-cache", "dpkg-deb", "mmdebstrap", "unshare"}
	if os.Geteuid() != 0 {
		tools = append(tools, "newuidmap")
	}
	if foreign {
		tools, packages = append(tools, "arch-test"), packages+" arch-test" // mmdebstrap needs it
	}
	missing := slices.DeleteFunc(tools, func(tool string) bool { _, err := exec.LookPath(tool); return err == nil })
	if len(missing) > 0 {
		return unavailable(arch, fmt.Errorf("not installed: %s", strings.Join(missing, ", "))).
			Advise("Run `sudo apt-get install " + packages + "`.")
	}
	return nil
}

func unavailable(arch vm.Arch, err error) *fault.Error {
	return fault.New(fault.Unavailable, "make a Debian pack for", string(arch), err)
}

func thisHost(arch vm.Arch) (host, error) {
	text, _ := os.ReadFile("/etc/os-release") // without one, it is another system
	h, err := parseRelease(string(text))
	if err != nil {
		return host{}, unavailable(arch, err).Advise("Make the pack on a Debian or Ubuntu host with `osaurus-sandbox pack build debian`, carry it here with `osaurus-sandbox pack export` and `osaurus-sandbox pack import`.")
	}
	return h, nil
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
	var out []byte
	err := pipe(ctx, cmd, func(r io.Reader) (err error) {
		out, err = io.ReadAll(r)
		return err
	})
	return string(out), err
}

// pipe runs a command, which is killed if this program is, and calls read with its output. If the
// command fails, the error quotes the end of its stderr.
func pipe(ctx context.Context, cmd *exec.Cmd, read func(io.Reader) error) error {
	// The kernel kills the command when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dieWithParent(cmd)
	var stderr tail
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	unread := read(out)
	out.Close() // ends a command that was not read to its end
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && (unread == nil || len(stderr) > 0):
		return errors.Join(unread, fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, bytes.TrimSpace(stderr)))
	}
	return unread
}

// tail keeps the end of what is written to it.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	*t = (*t)[max(0, len(*t)-maxStderr):]
	return len(p), nil
}
