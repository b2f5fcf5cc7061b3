package bake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm/image"
)

// Where things are in the builder. The overlay that is baked has the bare base
// below and a fresh folder of the data disk above; the cache outlives both.
const (
	guestBase = "/run/osaurus/base"
	guestData = "/run/osaurus/data"
	root      = "/run/bake"
	scratch   = guestData + "/bake"
	upper     = scratch + "/upper"
	workdir   = scratch + "/work"
	cache     = guestData + "/apk-cache"
	// apk keeps what it downloads where this link leads.
	cacheLink = root + "/etc/apk/cache"
)

const (
	// networkPatience bounds the wait for an address.
	networkPatience = 30 * time.Second
	networkPoll     = 100 * time.Millisecond
	// mirrorPatience bounds the wait for one mirror's index, whole.
	mirrorPatience = 30 * time.Second
	// installPatience bounds apk: a slow line needs an hour for the toolbox.
	installPatience = 2 * time.Hour
	// syncEvery is how much downloading a killed builder may lose.
	syncEvery = 2 * time.Second
	// stepPatience bounds everything else but the export.
	stepPatience = 5 * time.Minute
	// exportPatience bounds the export: 1 GB at the speed of an emulated machine.
	exportPatience = 30 * time.Minute
	// maxOutput bounds what is kept of a command's output: the list of
	// packages is the longest.
	maxOutput = 1 << 20
	// maxShown bounds what of a failed command's output is put into its error.
	maxShown = 2 << 10
)

// kitchen is one bake in a running builder.
type kitchen struct {
	guest             *guest.Client
	report            progress.Func
	branch            string
	mirrors, packages []string
}

// cook installs the packages and writes the base and the list of them.
func (k *kitchen) cook(ctx context.Context, dir string) error {
	if err := k.awaitNetwork(ctx); err != nil {
		return err
	}
	if err := k.setUp(ctx); err != nil {
		return err
	}
	mirror, err := k.findMirror(ctx)
	if err != nil {
		return err
	}
	if err := k.install(ctx, mirror); err != nil {
		return err
	}
	list, err := k.run(ctx, stepPatience, nil, "chroot", root, "apk", "info", "-v")
	if err != nil {
		return err
	}
	if err := k.cleanUp(ctx); err != nil {
		return err
	}
	if err := k.export(ctx, dir); err != nil {
		return err
	}
	return writePackages(filepath.Join(dir, PackagesName), list)
}

func (k *kitchen) awaitNetwork(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, networkPatience)
	defer cancel()
	for {
		info, err := k.guest.Info(ctx)
		if err != nil {
			return err
		}
		switch info.Network.Status {
		case guest.NetworkUp:
			return nil
		case guest.NetworkPending:
		default:
			return offline("get an address", "", errors.New(info.Network.Trouble))
		}
		select {
		case <-ctx.Done():
			return offline("get an address", "", ctx.Err())
		case <-time.After(networkPoll):
		}
	}
}

func offline(op, subject string, err error) error {
	return fault.New(fault.Unavailable, op, subject, err).
		Advise("Check the network and bake again. Until then the bare image works, without its tools.")
}

// setUp mounts the root that is baked, with nothing in it of an earlier try.
func (k *kitchen) setUp(ctx context.Context) error {
	for _, command := range []string{
		"rm -rf " + scratch,
		"mkdir -p " + strings.Join([]string{upper, workdir, cache, root}, " "),
		"mount -t overlay -o lowerdir=" + guestBase + ",upperdir=" + upper + ",workdir=" + workdir + " overlay " + root,
		"mkdir -p " + root + "/var/cache/apk " + root + "/etc/apk",
		"mount --bind " + cache + " " + root + "/var/cache/apk",
		"ln -s /var/cache/apk " + cacheLink,
		// Scripts of packages expect these.
		"mount --bind /dev " + root + "/dev",
		"mount --bind /proc " + root + "/proc",
		"cp /etc/resolv.conf " + root + "/etc/resolv.conf",
	} {
		if _, err := k.run(ctx, stepPatience, nil, strings.Fields(command)...); err != nil {
			return err
		}
	}
	return nil
}

// findMirror returns the first mirror that has the release's index.
func (k *kitchen) findMirror(ctx context.Context) (string, error) {
	machine, err := k.run(ctx, stepPatience, nil, "chroot", root, "apk", "--print-arch")
	if err != nil {
		return "", err
	}
	var failed []error
	for _, mirror := range k.mirrors {
		index := strings.Join([]string{mirror, k.branch, "main", strings.TrimSpace(machine), "APKINDEX.tar.gz"}, "/")
		_, err := k.run(ctx, mirrorPatience, nil, "wget", "-q", "-T", "10", "-O", "/dev/null", index)
		if err == nil {
			return mirror, nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		k.report.Note(mirror + " cannot be reached, trying the next mirror")
		failed = append(failed, err)
	}
	return "", offline("find a mirror", "", errors.Join(failed...))
}

// install installs the packages. Signatures are checked against the keys of
// the bare base, whatever the mirror says.
func (k *kitchen) install(ctx context.Context, mirror string) error {
	var repositories strings.Builder
	for _, name := range []string{"main", "community"} {
		fmt.Fprintf(&repositories, "%s/%s/%s\n", mirror, k.branch, name)
	}
	if _, err := k.run(ctx, stepPatience, strings.NewReader(repositories.String()), "dd", "of="+root+"/etc/apk/repositories"); err != nil {
		return err
	}
	meter := k.report.Start("install packages", 0, 0)
	defer meter.Finish()
	defer k.keepDownloads(ctx)()
	add := append([]string{"chroot", root, "apk", "--no-progress", "add"}, k.packages...)
	if _, err := k.run(ctx, installPatience, nil, add...); err != nil {
		return judge(err)
	}
	return nil
}

// keepDownloads has the builder write to its disk what apk has downloaded, now
// and again until the function that it returns is called: one that is killed
// loses little.
func (k *kitchen) keepDownloads(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(syncEvery):
			}
			_, _ = k.run(ctx, stepPatience, nil, "sync") // the install itself will tell what is wrong
		}
	}()
	return func() { cancel(); <-done }
}

// judge gives an error of apk its kind and advice: what it says of signatures and
// digests is a check that failed.
func judge(err error) error {
	for _, sign := range []string{"BAD signature", "UNTRUSTED signature", "BAD archive", "BAD checksum"} {
		if strings.Contains(err.Error(), sign) {
			return fault.New(fault.Rejected, "install packages", "", err).
				Advise("A mirror delivers something that was not signed by Alpine: use another mirror.")
		}
	}
	if strings.Contains(err.Error(), "(no such package)") {
		return fault.Wrap("install packages", "", err).Advise("Take it out of the setting toolbox. Until then the bare image works.")
	}
	return err
}

// cleanUp leaves in the root only what belongs to a base.
func (k *kitchen) cleanUp(ctx context.Context) error {
	for _, command := range []string{
		"umount " + root + "/proc",
		"umount " + root + "/dev",
		"umount " + root + "/var/cache/apk",
		"rm -rf " + root + "/etc/resolv.conf " + root + "/var/log/apk.log " + cacheLink,
	} {
		if _, err := k.run(ctx, stepPatience, nil, strings.Fields(command)...); err != nil {
			return err
		}
	}
	return nil
}

// export writes the base of what the root has become. It is read as a stream,
// as fast as it is written, and nobody vouches for it.
func (k *kitchen) export(ctx context.Context, dir string) error {
	meter := k.report.Start("write base", 0, 0)
	defer meter.Finish()
	ctx, cancel := context.WithTimeout(ctx, exportPatience)
	defer cancel()
	r, w := io.Pipe()
	defer r.Close() // ends the export, should it still run
	ended := make(chan error, 1)
	go func() {
		err := k.guest.ExportTar(ctx, root, io.MultiWriter(w, meter))
		w.CloseWithError(err)
		ended <- err
	}()
	if err := image.WriteBase(ctx, r, "the builder's root", dir); err != nil {
		return err
	}
	return <-ended
}

// run runs a command and returns its output.
func (k *kitchen) run(ctx context.Context, patience time.Duration, stdin io.Reader, args ...string) (string, error) {
	const op = "run in builder"
	var out, errs limited
	what := strings.Join(args, " ")
	exit, err := k.guest.Run(ctx, engine.Command{Args: args, Stdin: stdin, Stdout: &out, Stderr: &errs, Timeout: patience})
	switch {
	case err != nil:
		return "", err
	case exit.TimedOut:
		return "", fault.Newf(fault.Timeout, op, what, "it took more than %v", patience)
	case exit.Status() != 0:
		said := errs.String() + out.String() // apk says some of what is wrong there
		return "", fault.Newf(fault.Execution, op, what, "exit %d: %s", exit.Status(), tail(said))
	}
	return out.String(), nil
}

func tail(s string) string {
	s = strings.TrimSpace(s)
	return s[max(0, len(s)-maxShown):]
}

// limited keeps the last of what is written to it.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p)
	if over := l.Len() - maxOutput; over > 0 {
		l.Next(over)
	}
	return len(p), nil
}

func writePackages(path, list string) error {
	lines := strings.Fields(list)
	slices.Sort(lines)
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}
