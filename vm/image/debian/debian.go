// Package debian makes packs on a Debian or Ubuntu host from the host's signed package archives.
package debian

import (
	"cmp"
	"context"
	"io"
	"os"
	"path"
	"path/filepath"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/fetch"
	"osaurus-sandbox/vm/image/pack"
	"osaurus-sandbox/vm/image/untar"
)

// The files of a pack.
const (
	kernelName  = "kernel"
	modulesName = "modules.tar.zst"
	rootName    = "root.tar.zst"
)

// Name returns the name of the pack that Build makes on this host.
func Name(arch vm.Arch) (string, error) {
	h, err := thisHost(arch)
	if err != nil {
		return "", err
	}
	return h.id + "-" + h.version + "-" + string(arch), nil
}

// Build writes a pack's files to a folder, for pack.Store.Build. The client downloads npm.
func Build(ctx context.Context, arch vm.Arch, client *fetch.Client, dir string, report progress.Func) (pack.Manifest, error) {
	h, err := thisHost(arch)
	if err = cmp.Or(err, Available(arch)); err != nil {
		return pack.Manifest{}, err
	}
	temp := filepath.Join(dir, "temp")
	if err := os.Mkdir(temp, 0o755); err != nil {
		return pack.Manifest{}, fault.New(fault.Execution, "make a Debian pack for", string(arch), err)
	}
	defer os.RemoveAll(temp)
	origins, err := buildKernel(ctx, h, arch, dir, temp, report)
	var npm string
	if err == nil {
		npm, err = getNPM(ctx, client, temp, report)
	}
	if npm != "" {
		origins = append(origins, pack.Origin{Name: path.Base(npmArchive.URL), SHA256: npmArchive.SHA256})
	}
	if err == nil {
		err = pack.WriteZstd(filepath.Join(dir, rootName), "install "+h.id+" "+h.codename, report, func(w io.Writer) error {
			return pipe(ctx, rootCommand(ctx, h, arch, temp, npm), func(root io.Reader) error { return untar.Filter(ctx, w, root, "root file system") })
		})
	}
	if err != nil {
		return pack.Manifest{}, fault.Wrap("make a Debian pack for", string(arch), err).
			Advise("Check the network and that `apt-get update` works on this host.")
	}
	return pack.Manifest{
		Distribution: h.id, Version: h.version + " (" + h.codename + ")", Arch: arch, PackageTool: pack.APT,
		Kernel: pack.File{Name: kernelName}, Modules: pack.File{Name: modulesName}, Root: pack.File{Name: rootName},
		Origins: append(origins, pack.Origin{Name: "mmdebstrap " + h.codename}),
	}, nil
}

func buildKernel(ctx context.Context, h host, arch vm.Arch, dir, temp string, report progress.Func) ([]pack.Origin, error) {
	smallest := "linux-image-cloud-" + string(arch) // for virtual machines
	if h.id == "ubuntu" {
		smallest = "linux-image-virtual"
	}
	meter := report.Start("download the kernel", 0, 0)
	debs, err := Download(ctx, arch, smallest, temp)
	meter.Finish()
	if err != nil {
		return nil, err
	}
	var origins []pack.Origin
	for _, deb := range debs {
		f, err := pack.PinFile(ctx, filepath.Dir(deb), filepath.Base(deb))
		if err != nil {
			return nil, err
		}
		origins = append(origins, pack.Origin{Name: f.Name, SHA256: f.SHA256})
	}
	return origins, pack.WriteZstd(filepath.Join(dir, modulesName), "unpack the kernel", report, func(w io.Writer) error {
		return makeKernel(ctx, arch, debs, filepath.Join(dir, kernelName), w)
	})
}
