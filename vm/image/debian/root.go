package debian

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"osaurus-sandbox/vm"
)

// buildTime is the modification time of generated files (2025-06-15), so that the same
// packages give the same pack.
const buildTime = 1750000000

// toolbox lists the packages to install in addition to Debian's own set.
const toolbox = `bash coreutils findutils grep sed less procps vim-tiny
	python3 python3-venv python3-pip nodejs
	git ripgrep jq curl wget lftp openssh-client rsync socat
	ca-certificates e2fsprogs iproute2 tzdata`

// rootCommand returns the mmdebstrap command. Users need no privileges. For root, it runs in
// its own namespaces, so that its mounts and processes end with it.
func rootCommand(ctx context.Context, h host, arch vm.Arch, temp, npm string) *exec.Cmd {
	components := "main"
	if h.id == "ubuntu" {
		components = "main,universe" // for ripgrep and nodejs
	}
	args := []string{
		"mmdebstrap", "--quiet", "--format=tar", "--variant=minbase", "--architectures=" + string(arch), "--components=" + components,
		"--include=" + strings.Join(strings.Fields(toolbox), ","),
		`--aptopt=Apt::Install-Recommends "false"`,
		"--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-include=/usr/share/doc/*/copyright",
		"--dpkgopt=path-exclude=/usr/share/locale/*",
	}
	if npm != "" {
		args = append(args, npmOptions(npm)...)
	}
	env := append(os.Environ(), "LC_ALL=C", fmt.Sprint("SOURCE_DATE_EPOCH=", buildTime))
	if os.Geteuid() == 0 {
		args = append([]string{"unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"}, args...)
		args = append(args, "--mode=root")
		env = append(env, "TMPDIR="+temp) // removed with the pack's folder after a killed build
	} else {
		// Keep the default TMPDIR: users of the build's namespace have no access to
		// the pack's folder.
		args = append(args, "--mode=unshare")
	}
	args = append(args, h.codename, "-")
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = filepath.Dir(temp)
	cmd.Env = env
	return cmd
}
