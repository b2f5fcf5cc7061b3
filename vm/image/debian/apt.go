package debian

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

// maxMeta bounds how far a meta-package leads to the one with the kernel.
const maxMeta = 3

// Download brings Debian packages for an architecture into a folder, which
// must be empty, through the host's package manager: its archives, its
// signatures, but package lists and caches of our own, so that it needs no
// root and changes nothing on the host. A kernel's meta-package stands for the
// packages with the kernel and its modules. It returns the packages' files.
func Download(ctx context.Context, arch vm.Arch, pkg, dir string) ([]string, error) {
	debs, err := download(ctx, arch, pkg, dir)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "download Debian package", pkg, err).
			Advise("Check the network and that `apt-get update` works on this host.")
	}
	return debs, nil
}

func download(ctx context.Context, arch vm.Arch, pkg, dir string) ([]string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	for _, d := range []string{"lists/partial", "cache/archives/partial", "debs"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	debs := filepath.Join(dir, "debs")
	apt := func(tool string, args ...string) (string, error) {
		options := []string{
			"-oAPT::Architecture=" + string(arch), "-oAPT::Architectures=" + string(arch), "-oAPT::Sandbox::User=",
			"-oDir::State::Lists=" + filepath.Join(dir, "lists"), "-oDir::Cache=" + filepath.Join(dir, "cache"), "-qq",
		}
		return run(ctx, debs, tool, append(options, args...)...)
	}
	if _, err := apt("apt-get", "update"); err != nil {
		return nil, err
	}
	packages, err := kernelPackages(pkg, func(pkg string) (string, error) { return apt("apt-cache", "depends", pkg) })
	if err != nil {
		return nil, err
	}
	if _, err := apt("apt-get", append([]string{"download"}, packages...)...); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err == nil && len(files) != len(packages) {
		err = fmt.Errorf("%d packages came in place of %d", len(files), len(packages))
	}
	return files, err
}

// kernelPackages follows a kernel's meta-package to the packages that have the
// kernel and its modules. Any other package is what it is.
func kernelPackages(pkg string, depends func(string) (string, error)) ([]string, error) {
	if !strings.HasPrefix(pkg, "linux-image-") {
		return []string{pkg}, nil
	}
	packages := []string{pkg}
	for next, depth := []string{pkg}, 0; len(next) > 0; depth++ {
		if depth > maxMeta {
			return nil, errors.New("its meta-packages lead nowhere")
		}
		var found []string
		for _, p := range next {
			text, err := depends(p)
			if err != nil {
				return nil, err
			}
			for line := range strings.Lines(text) {
				d, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: ")
				if ok && (strings.HasPrefix(d, "linux-image-") || strings.HasPrefix(d, "linux-modules-")) && !slices.Contains(packages, d) {
					found = append(found, d)
				}
			}
		}
		packages = append(packages, found...)
		next = found
	}
	return packages, nil
}
