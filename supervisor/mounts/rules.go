package mounts

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// maxDepth bounds the way from a folder up to the root: a path has 4096 bytes at most.
const maxDepth = 2048

// Rules say which folders of this computer may be mounted.
type Rules struct {
	// Home is the daemon's.
	Home config.Home
	// Person is the home folder of the person whose daemon this is.
	Person string
	// Never returns more folders that are never mounted.
	Never func() []config.HostFolder
}

// private lists folders below a person's home with keys, passwords and profiles.
func private() []string {
	return []string{
		// Keys and tokens.
		".ssh", ".gnupg", ".aws", ".azure", ".config/gcloud", ".kube", ".docker", ".config/gh", ".config/op", ".config/sops", ".password-store", ".local/share/pass",
		// Keyrings.
		".local/share/keyrings", ".local/share/kwalletd", "Library/Keychains",
		// Browsers.
		".mozilla", ".config/mozilla", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge", ".config/vivaldi", ".config/opera", "snap/firefox", "snap/chromium", ".var/app",
		"Library/Application Support/Firefox", "Library/Application Support/Google", "Library/Application Support/Chromium", "Library/Application Support/BraveSoftware",
		"Library/Application Support/Microsoft Edge", "Library/Application Support/Vivaldi", "Library/Application Support/Arc", "Library/Safari", "Library/Cookies", "Library/Containers",
	}
}

// forbidden is a folder that is never mounted.
type forbidden struct{ path, what, advice string }

func (r Rules) forbidden() []forbidden {
	list := []forbidden{{string(r.Home), "the sandbox's own home", "Mount a folder outside of it, or move it elsewhere with " + config.HomeVariable + "."}}
	for _, path := range private() {
		list = append(list, forbidden{filepath.Join(r.Person, path), "where keys, passwords or profiles are", "Copy what the agent needs into a folder of its own, and mount that."})
	}
	for _, f := range r.Never() {
		list = append(list, forbidden{f.In(r.Person), "in the setting mounts.never", "Change the setting if this is a mistake: osaurus-sandbox config set mounts.never-=" + string(f)})
	}
	return list
}

const opMount = "mount"

// Open opens a folder that may be mounted, and returns its path without links. All allows the
// person's home folder, with everything in it. The checks are about the folder that was opened,
// whatever its path has become meanwhile.
func (r Rules) Open(path string, all bool) (root *os.Root, resolved string, err error) {
	switch {
	case r.Person == "":
		return nil, "", fault.Newf(fault.Unavailable, opMount, path, "the daemon does not know your home folder, which has keys").Advise("Start it with HOME set: osaurus-sandbox down --daemon, then osaurus-sandbox up")
	case !filepath.IsAbs(path):
		return nil, "", fault.Newf(fault.InvalidArgs, opMount, path, "not an absolute path").Advise("Write the whole path: /home/me/app")
	}
	root, err = os.OpenRoot(path)
	if err != nil {
		return nil, "", cannotOpen(path, err)
	}
	if resolved, err = r.check(root, path, all); err != nil {
		_ = root.Close()
		return nil, "", err
	}
	return root, resolved, nil
}

func cannotOpen(path string, err error) error {
	kind := fault.KindOf(err)
	if kind != fault.NotFound { // no folder, or not readable
		kind = fault.Rejected
	}
	return fault.New(kind, opMount, path, err).Advise("Check that it is a folder that is there and that you can read.")
}

func (r Rules) check(root *os.Root, path string, all bool) (string, error) {
	above, err := ancestors(root)
	if err != nil {
		return "", cannotOpen(path, err)
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", cannotOpen(path, err)
	}
	refuse := func(why, advice string) (string, error) {
		return "", fault.New(fault.Rejected, opMount, resolved, errors.New(why)).Advise(advice)
	}
	if now, ok := identityOf(resolved); !ok || now != above[0] {
		return refuse("another folder took its place meanwhile", "Try again.")
	}
	switch person, ok := identityOf(r.Person); {
	case len(above) == 1:
		return refuse("it is the root of this computer", "Mount the folder that the agent is to work in.")
	case ok && person == above[0] && !all:
		return refuse("it is your home folder, with all your keys and files", "Mount the folder that the agent is to work in. To give it all of your home, keys too, use --yes-all-of-it.")
	case ok && person == above[0]:
		return resolved, nil
	}
	for _, f := range r.forbidden() {
		var around []identity // the forbidden folder, and those above it
		if dir, err := os.OpenRoot(f.path); err == nil {
			around, _ = ancestors(dir)
			_ = dir.Close()
		}
		there := len(around) > 0
		switch {
		case there && around[0] == above[0] || same(resolved, f.path):
			return refuse("it is "+f.what, f.advice)
		case there && slices.Contains(above, around[0]) || within(resolved, f.path):
			return refuse("it is in "+f.path+", "+f.what, f.advice)
		case slices.Contains(around, above[0]) || within(f.path, resolved):
			return refuse("in it is "+f.path+", "+f.what, f.advice)
		}
	}
	return resolved, nil
}

// identity tells folders apart, whatever their paths are.
type identity struct{ device, inode uint64 }

func identityOf(path string) (identity, bool) {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	return identity{uint64(st.Dev), st.Ino}, err == nil
}

// ancestors returns the folder itself and all folders above it.
func ancestors(root *os.Root) (list []identity, err error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	for up := "."; len(list) < maxDepth; up += "/.." {
		var st unix.Stat_t
		if err := unix.Fstatat(int(dir.Fd()), up, &st, 0); err != nil {
			return nil, err
		}
		id := identity{uint64(st.Dev), st.Ino}
		if slices.Contains(list, id) { // the root is its own parent
			return list, nil
		}
		list = append(list, id)
	}
	return nil, unix.ENAMETOOLONG
}

// same reports whether two paths are equal on this computer, whose files may not be there.
func same(a, b string) bool {
	if runtime.GOOS == "darwin" {
		return strings.EqualFold(a, b)
	}
	return a == b
}

// within reports whether a path is below a folder.
func within(path, folder string) bool {
	folder = strings.TrimSuffix(folder, "/") + "/"
	return len(path) > len(folder) && same(path[:len(folder)], folder)
}
