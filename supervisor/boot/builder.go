package boot

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

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm/image"
)

// Folders of the builder's guest. The new base is an overlay: the bare base below,
// a fresh folder of the data disk above. The package cache survives a failed build.
const (
	guestBase = "/run/osaurus/base"
	guestData = "/run/osaurus/data"
	newRoot   = "/run/build"
	scratch   = guestData + "/build"
	upper     = scratch + "/upper"
	workdir   = scratch + "/work"
	apkCache  = guestData + "/apk-cache"
	// apk keeps its downloads in the folder that this link names.
	cacheLink = newRoot + "/etc/apk/cache"
)

const (
	mirrorTimeout  = 30 * time.Second // to fetch a mirror's index
	installTimeout = 2 * time.Hour    // a slow connection needs one hour for the toolbox
	exportTimeout  = 30 * time.Minute // 1 GB at the speed of an emulated machine
	stepTimeout    = 5 * time.Minute  // for any other step
	maxShown       = 2 << 10          // of a failed command's output in its error
)

// builder installs a toolbox in a running guest.
type builder struct {
	ToolboxBuilder
	guest  *guest.Client
	report progress.Func
	branch string // the release's folder on a mirror: v3.24
}

// build installs the packages and writes the base and its package list to dir.
func (b *builder) build(ctx context.Context, dir string) error {
	if err := CheckNetwork(ctx, b.guest.Info); err != nil {
		return offline("connect", err)
	}
	if err := b.each(ctx, setUp); err != nil {
		return err
	}
	mirror, err := b.findMirror(ctx)
	if err != nil {
		return err
	}
	if err := b.install(ctx, mirror); err != nil {
		return err
	}
	list, err := b.run(ctx, stepTimeout, nil, "chroot", newRoot, "apk", "info", "-v")
	if err != nil {
		return err
	}
	if err := b.each(ctx, cleanUp); err != nil {
		return err
	}
	if err := b.export(ctx, dir); err != nil {
		return err
	}
	packages := strings.Fields(list)
	slices.Sort(packages)
	return os.WriteFile(filepath.Join(dir, PackageList), []byte(strings.Join(packages, "\n")+"\n"), 0o600)
}

// CheckNetwork returns an error unless a guest is connected to the gateway.
func CheckNetwork(ctx context.Context, guestInfo func(context.Context) (*guest.Info, error)) error {
	info, err := guestInfo(ctx)
	if err != nil {
		return err
	}
	if info.Network != "up" {
		return fault.Newf(fault.Unavailable, "use the guest's network", "", "it is %s: %s", info.Network, info.NetworkTrouble)
	}
	return nil
}

func offline(op string, err error) error {
	return fault.New(fault.Unavailable, op, "", err).
		Advise("Check the network and build again. Until then the bare image works, without its tools.")
}

// setUp mounts the new root without leftovers of an earlier build. It makes the kernel
// write downloads to the disk soon, so that a killed builder keeps them.
var setUp = []string{
	"sysctl -w vm.dirty_expire_centisecs=100 vm.dirty_writeback_centisecs=100",
	"rm -rf " + scratch,
	"mkdir -p " + strings.Join([]string{upper, workdir, apkCache, newRoot}, " "),
	"mount -t overlay -o lowerdir=" + guestBase + ",upperdir=" + upper + ",workdir=" + workdir + " overlay " + newRoot,
	"mkdir -p " + newRoot + "/var/cache/apk " + newRoot + "/etc/apk",
	"mount --bind " + apkCache + " " + newRoot + "/var/cache/apk",
	"ln -s /var/cache/apk " + cacheLink,
	"mount --bind /dev " + newRoot + "/dev", // scripts of packages expect these
	"mount --bind /proc " + newRoot + "/proc",
	"cp /etc/resolv.conf " + newRoot + "/etc/resolv.conf",
}

// cleanUp leaves only the files of a base.
var cleanUp = []string{
	"umount " + newRoot + "/proc",
	"umount " + newRoot + "/dev",
	"umount " + newRoot + "/var/cache/apk",
	"rm -rf " + newRoot + "/etc/resolv.conf " + newRoot + "/var/log/apk.log " + cacheLink,
}

// each runs commands, whose words contain no spaces.
func (b *builder) each(ctx context.Context, commands []string) error {
	for _, command := range commands {
		if _, err := b.run(ctx, stepTimeout, nil, strings.Fields(command)...); err != nil {
			return err
		}
	}
	return nil
}

// findMirror returns the first mirror that has the release's index.
func (b *builder) findMirror(ctx context.Context) (config.MirrorURL, error) {
	machine, err := b.run(ctx, stepTimeout, nil, "chroot", newRoot, "apk", "--print-arch")
	if err != nil {
		return "", err
	}
	var failed []error
	for _, mirror := range b.Mirrors {
		index := strings.Join([]string{string(mirror), b.branch, "main", strings.TrimSpace(machine), "APKINDEX.tar.gz"}, "/")
		_, err := b.run(ctx, mirrorTimeout, nil, "wget", "-q", "-T", "10", "-O", "/dev/null", index)
		if err == nil {
			return mirror, nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		b.report.Note("cannot reach " + string(mirror) + ", trying the next mirror")
		failed = append(failed, err)
	}
	return "", offline("find a mirror", errors.Join(failed...))
}

// install installs the packages. apk checks signatures against the keys of the
// bare base, so a mirror is not trusted.
func (b *builder) install(ctx context.Context, mirror config.MirrorURL) error {
	var repositories strings.Builder
	for _, name := range []string{"main", "community"} {
		fmt.Fprintf(&repositories, "%s/%s/%s\n", mirror, b.branch, name)
	}
	if _, err := b.run(ctx, stepTimeout, strings.NewReader(repositories.String()), "dd", "of="+newRoot+"/etc/apk/repositories"); err != nil {
		return err
	}
	meter := b.report.Start("install packages", 0, 0)
	defer meter.Finish()
	add := append([]string{"chroot", newRoot, "apk", "--no-progress", "add"}, texts(b.Packages)...)
	if _, err := b.run(ctx, installTimeout, nil, add...); err != nil {
		return explainAPK(err)
	}
	return nil
}

// explainAPK gives an error of apk its kind and advice: a wrong signature or
// checksum is Rejected.
func explainAPK(err error) error {
	for _, sign := range []string{"BAD signature", "UNTRUSTED signature", "BAD archive", "BAD checksum"} {
		if strings.Contains(err.Error(), sign) {
			return fault.New(fault.Rejected, "install packages", "", err).
				Advise("A mirror delivers packages that Alpine did not sign: use another mirror.")
		}
	}
	if strings.Contains(err.Error(), "(no such package)") {
		return fault.Wrap("install packages", "", err).Advise("Remove it from the setting toolbox. Until then the bare image works.")
	}
	return err
}

// export writes the base from the new root, as a stream.
func (b *builder) export(ctx context.Context, dir string) error {
	meter := b.report.Start("write base", 0, 0)
	defer meter.Finish()
	ctx, cancel := context.WithTimeout(ctx, exportTimeout)
	defer cancel()
	r, w := io.Pipe()
	defer r.Close() // ends the export if WriteBase fails
	ended := make(chan error, 1)
	go func() {
		err := b.guest.ExportTar(ctx, newRoot, io.MultiWriter(w, meter))
		w.CloseWithError(err)
		ended <- err
	}()
	if err := image.WriteBase(ctx, r, "the builder's root", dir); err != nil {
		return err
	}
	return <-ended
}

// run runs a command and returns its output.
func (b *builder) run(ctx context.Context, timeout time.Duration, stdin io.Reader, args ...string) (string, error) {
	const op = "run in builder"
	var out, errs bytes.Buffer
	command := strings.Join(args, " ")
	exit, err := b.guest.Run(ctx, engine.Command{Args: args, Stdin: stdin, Stdout: &out, Stderr: &errs, Timeout: timeout})
	switch {
	case err != nil:
		return "", err
	case exit.TimedOut:
		return "", fault.Newf(fault.Timeout, op, command, "it took more than %v", timeout)
	case exit.Status() != 0:
		text := strings.TrimSpace(errs.String() + out.String()) // apk writes errors to both
		return "", fault.Newf(fault.Execution, op, command, "exit %d: %s", exit.Status(), text[max(0, len(text)-maxShown):])
	}
	return out.String(), nil
}
