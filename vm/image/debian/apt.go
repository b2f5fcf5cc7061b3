package debian

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

// maxKernel bounds the packages of a kernel: meta-packages, kernel and modules.
const maxKernel = 8

// Download downloads a Debian package to an empty folder and returns the paths of the .deb
// files. For a kernel's meta-package, it downloads the packages with the kernel and its
// modules. It uses the host's apt sources and keys, but its own lists and caches, so that
// it needs no root and does not change the host.
func Download(ctx context.Context, arch vm.Arch, pkg, dir string) (files []string, err error) {
	defer func() {
		if err != nil {
			err = fault.New(fault.Unavailable, "download Debian package", pkg, err).
				Advise("Check the network and that `apt-get update` works on this host.")
		}
	}()
	if dir, err = filepath.Abs(dir); err != nil {
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
	files, err = filepath.Glob(filepath.Join(debs, "*.deb"))
	if err == nil && len(files) != len(packages) {
		err = fmt.Errorf("got %d packages instead of %d", len(files), len(packages))
	}
	return files, err
}

// kernelPackages resolves a kernel's meta-package to the packages with the kernel and its
// modules. It returns any other package as it is.
func kernelPackages(pkg string, depends func(string) (string, error)) ([]string, error) {
	if !strings.HasPrefix(pkg, "linux-image-") {
		return []string{pkg}, nil
	}
	packages := []string{pkg}
	for i := 0; i < len(packages); i++ {
		if i == maxKernel {
			return nil, fmt.Errorf("the kernel has more than %d packages", maxKernel)
		}
		text, err := depends(packages[i])
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			d, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: ")
			if ok && (strings.HasPrefix(d, "linux-image-") || strings.HasPrefix(d, "linux-modules-")) && !slices.Contains(packages, d) {
				packages = append(packages, d)
			}
		}
	}
	return packages, nil
}
