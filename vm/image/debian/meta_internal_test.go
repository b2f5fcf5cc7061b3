package debian

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"testing"
)

func TestKernelPackagesFollowsMetaPackages(t *testing.T) {
	depends := map[string]string{
		"linux-image-cloud-amd64":             "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-56-cloud-amd64\n",
		"linux-image-6.1.0-56-cloud-amd64":    "linux-image-6.1.0-56-cloud-amd64\n  Depends: kmod\n |Depends: initramfs-tools\n  Recommends: apparmor\n",
		"linux-image-virtual":                 "linux-image-virtual\n  Depends: linux-image-6.8.0-60-generic\n  Depends: linux-firmware\n",
		"linux-image-6.8.0-60-generic":        "linux-image-6.8.0-60-generic\n  Depends: kmod\n  Depends: linux-modules-6.8.0-60-generic\n",
		"linux-modules-6.8.0-60-generic":      "linux-modules-6.8.0-60-generic\n",
		"linux-image-loop":                    "  Depends: linux-image-a\n",
		"linux-image-a":                       "  Depends: linux-image-b\n",
		"linux-image-b":                       "  Depends: linux-image-c\n",
		"linux-image-c":                       "  Depends: linux-image-d\n",
		"linux-image-d":                       "  Depends: linux-image-e\n",
		"linux-image-round":                   "  Depends: linux-image-round\n",
		"linux-image-of-something-else-amd64": "  Depends: libc6\n",
	}
	apt := func(pkg string) (string, error) {
		text, ok := depends[pkg]
		if !ok {
			return "", fmt.Errorf("no package %s", pkg)
		}
		return text, nil
	}
	for pkg, want := range map[string][]string{
		"busybox-static":          {"busybox-static"},
		"linux-image-cloud-amd64": {"linux-image-cloud-amd64", "linux-image-6.1.0-56-cloud-amd64"},
		"linux-image-virtual":     {"linux-image-virtual", "linux-image-6.8.0-60-generic", "linux-modules-6.8.0-60-generic"},
		"linux-image-round":       {"linux-image-round"},
		"linux-image-loop":        nil,
		"linux-image-missing":     nil,
	} {
		if got, err := kernelPackages(pkg, apt); !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("kernelPackages(%s) = %q, %v, want %q", pkg, got, err, want)
		}
	}
}

func TestParseRelease(t *testing.T) {
	for text, want := range map[string]host{
		"PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\nID=debian\n": {"debian", "12", "bookworm"},
		"ID=ubuntu\nVERSION_ID=\"24.04\"\nVERSION_CODENAME=noble\n":                                                 {"ubuntu", "24.04", "noble"},
		"ID=fedora\nVERSION_ID=42\n": {},
		"ID=debian\n":                {}, // testing without a name
		"":                           {},
	} {
		if got, err := parseRelease(text); got != want || (err == nil) != (want != host{}) {
			t.Errorf("parseRelease(%q) = %+v, %v, want %+v", text, got, err, want)
		}
	}
}

// A command that fails is quoted. One whose output is refused ends.
func TestPipe(t *testing.T) {
	if out, err := run(t.Context(), "/", "sh", "-c", "echo good"); out != "good\n" || err != nil {
		t.Errorf("run = %q, %v", out, err)
	}
	if _, err := run(t.Context(), "/", "sh", "-c", "echo bad >&2; exit 3"); err == nil || err.Error() != "sh: exit status 3: bad" {
		t.Errorf("a command that fails: %v", err)
	}
	enough := errors.New("enough")
	if err := pipe(t.Context(), exec.Command("yes"), func(io.Reader) error { return enough }); err != enough {
		t.Errorf("a refused output: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := run(ctx, "/", "sleep", "60"); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ended: %v", err)
	}
}
